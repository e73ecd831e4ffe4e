#!/bin/sh
# Files of tensors against the format's own library: it reads what Tenon saved, and Tenon reads what
# it saved, to the last byte. Skipped where python3 (or PYTHON) has no module safetensors.
#
# usage: exchange.sh EXCHANGE
set -eu
python=${PYTHON:-python3}
"$python" -c 'import safetensors' 2>/dev/null || {
  echo "$python has no module safetensors: skipped"
  exit 77
}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

"$1" write "$scratch/ours"
"$python" - "$scratch/ours" "$scratch/theirs" <<'PYTHON'
import ctypes, sys
from safetensors import deserialize, serialize

sizes = {"BOOL": 1, "U8": 1, "I8": 1, "I16": 2, "I32": 4, "I64": 8, "F16": 2, "BF16": 2, "F32": 4, "F64": 8,
         "F8_E4M3": 1, "F8_E5M2": 1}
read = dict(deserialize(open(sys.argv[1], "rb").read()))
assert len(read) == len(sizes), read.keys()
for name, tensor in read.items():
    dtype = tensor["dtype"]
    assert name == dtype.lower() and list(tensor["shape"]) == [2, 3], (name, tensor)
    want = bytes(i % 2 if dtype == "BOOL" else i for i in range(6 * sizes[dtype]))
    assert bytes(tensor["data"]) == want, name

kept = []  # what the library is given by its address
def made(dtype, shape, data):
    try:
        from safetensors import TensorSpec
    except ImportError:
        return {"dtype": dtype, "shape": shape, "data": data}
    kept.append(ctypes.create_string_buffer(data, max(len(data), 1)))
    return TensorSpec(dtype=dtype, shape=shape, data_ptr=ctypes.addressof(kept[-1]), data_len=len(data))

tensors = {
    "bool": made("bool", [3], b"\0\1\1"),
    "layer.0/ümlaut \"q\"": made("float32", [2, 1], bytes(range(8))),
    "scalar": made("int64", [], bytes(range(8, 16))),
    "none": made("float16", [0, 4], b""),
    "bf": made("bfloat16", [1, 1, 2], b"\x80\x3f\0\x40"),
    "unsigned": made("uint16", [2], b"\1\2\3\4"),
}
open(sys.argv[2], "wb").write(serialize(tensors, {"format": "pt", "é": "\"\\\n"}))
PYTHON

"$1" read "$scratch/theirs" >"$scratch/got"
cat >"$scratch/want" <<'WANT'
format: pt
é: "\

bf BF16 [1, 1, 2] 803f0040
bool BOOL [3] 000101
layer.0/ümlaut "q" F32 [2, 1] 0001020304050607
none F16 [0, 4] 
scalar I64 [] 08090a0b0c0d0e0f
unsigned U16 [2]
WANT
diff "$scratch/want" "$scratch/got" || { echo "their file is read otherwise"; exit 1; }
"$1" read "$scratch/ours" | grep -qx 'format: pt' || { echo "our metadata"; exit 1; }
echo "both ways to the last byte"

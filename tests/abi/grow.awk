# Prints a header of the API as a later version might have it: every struct that may grow has
# grown, and the ABI version is one more.
#
# usage: awk -f grow.awk HEADER
/^(typedef )?struct tn_[a-z_]+ {$/ { grows = /tn_(arg|attr|plugin_note) / }
/^  uint32_t struct_size;/ { grows = 1 }
/^#define TN_ABI_VERSION 1u$/ { $0 = "#define TN_ABI_VERSION 2u\n#define TN_GROWN 1" }
/^}/ {
  # In a file, a note grows by words: its neighbours stand at multiples of four.
  if (grows) print(/tn_plugin_note;/ ? "  uint32_t later[4];" : "  void *later[3];")
  grows = 0
}
{ print }

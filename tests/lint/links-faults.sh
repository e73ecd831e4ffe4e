#!/bin/sh
# links.sh itself: it takes links that lead somewhere and fails at those that do not.
set -eu
here=$(realpath "$(dirname "$0")")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/sub"

# Follows the links of a page: the status and what is said must be these.
follow() { # STATUS PATTERN
  cat >"$scratch/page.md"
  status=0
  sh "$here/links.sh" "$scratch" >"$scratch/out" 2>&1 || status=$?
  if [ "$status" -ne "$1" ] || ! grep -q "$2" "$scratch/out"; then
    cat "$scratch/page.md" "$scratch/out" >&2
    echo "failed: status $status, not $1 with '$2'" >&2
    exit 1
  fi
}

# shellcheck disable=SC2016 # backquotes of Markdown
printf '# One: two, `three`\n\n## Same\n\n## Same\n\n<a id="own"></a>\n[up](../page.md#top)\n' >"$scratch/sub/other.md"
follow 0 '8 links in 2 pages' <<'EOF'
# Top
[1](sub) [2](sub/other.md#one-two-three) [3](sub/other.md#same-1) [4](sub/other.md#own) [5](#top)
[6](https://example.org/nosuch#nosuch) `[7](nosuch.md)` <img src="sub/other.md"> <a href="page.md">
```c
x[8](nosuch.md);
```
EOF
follow 1 'page.md:2: nosuch.md leads to nothing' <<'EOF'
# Top
[1](nosuch.md)
EOF
follow 1 'page.md:2: sub/other.md#same-2 has no such anchor' <<'EOF'
# Top
[1](sub/other.md#same-2)
EOF
follow 1 'page.md:2: #nosuch has no such anchor' <<'EOF'
# Top
[1](#nosuch)
EOF
follow 1 'page.md:2: nosuch.svg leads to nothing' <<'EOF'
# Top
<img src="nosuch.svg">
EOF
follow 1 'page.md:3: nosuch.md leads to nothing' <<'EOF'
# Top
[1][there] [2][web]
[there]: nosuch.md
[web]: https://example.org/nosuch
EOF
echo "right links pass, wrong ones do not"

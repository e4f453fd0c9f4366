#!/usr/bin/env bash
# The documentation as a site: dist/site, from docs/ and the pages that docs/SUMMARY.md lists beside it. The
# pages stay where they are, so that a forge shows them as well; mdBook gets copies in the same places, and
# copies of the other files that they link to.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

source scripts/packages.sh
require_packages site python3
mdbook=$(scripts/install-mdbook.sh)
work=target/site
rm -rf "$work"
mkdir -p "$work/src"
cp scripts/site/book.toml scripts/site/site.css "$work/"

# Paths in the list start from docs/, and mdBook's from the list.
sed -E 's#\]\(\.\./#](#; t; s#\]\(([^)]+\.md\))#](docs/\1#' docs/SUMMARY.md >"$work/src/SUMMARY.md"
mapfile -t pages < <(grep -oE '\]\([^)]+\.md\)' "$work/src/SUMMARY.md" | sed -E 's#^\]\((.*)\)$#\1#')

# A page or file as it is in the repository.
copy() {
  mkdir -p "$work/src/$(dirname "$1")"
  cp -r "$1" "$work/src/$1"
}

for page in "${pages[@]}"; do
  copy "$page"
  # mdBook makes the index of a directory from its README.md, and leaves links to it as they are.
  sed -i -E 's#(\]\([^)]*)README\.md#\1index.md#g' "$work/src/$page"
done
# What pages link to and is no page: a file, or a directory of files.
for page in "${pages[@]}"; do
  while read -r target; do
    path=$(realpath -m --relative-to=. "$(dirname "$page")/$target")
    if [[ $path != ../* && -e $path && ! -e $work/src/$path ]]; then copy "$path"; fi
  done < <(grep -oE '\]\([^)#: ]+' "$page" | sed 's/^](//' || true)
done

"$mdbook" build "$work"
rm -rf dist/site
mkdir -p dist
mv "$work/book" dist/site

# Every link within the site leads to a page or file, and every fragment to a heading.
python3 - dist/site <<'PYTHON'
import html.parser, os, sys, urllib.parse

root = sys.argv[1]

class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.links, self.ids = [], set()
        with open(path, encoding="utf-8") as file:
            self.feed(file.read())

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.ids.update(filter(None, (attributes.get("id"), attributes.get("name"))))
        for name in ("href", "src"):
            if tag in ("a", "img", "link", "script") and attributes.get(name):
                self.links.append(attributes[name])

paths = [os.path.join(at, name) for at, _, names in os.walk(root) for name in names if name.endswith(".html")]
# What has no place of its own: mdBook makes its links absolute.
skipped = ("404.html", "toc.html", "print.html")
pages = {os.path.normpath(path): Page(path) for path in paths}
dead = []
for path, page in pages.items():
    if os.path.basename(path) in skipped:
        continue
    for link in page.links:
        url = urllib.parse.urlsplit(link)
        if url.scheme or url.netloc:
            continue
        target = path if not url.path else os.path.join(os.path.dirname(path), urllib.parse.unquote(url.path))
        target = os.path.normpath(target)
        if not os.path.exists(target):
            dead.append(f"{path}: {link}: no such file")
        elif url.fragment and target in pages and urllib.parse.unquote(url.fragment) not in pages[target].ids:
            dead.append(f"{path}: {link}: no such heading")
if dead:
    sys.exit("dead links:\n" + "\n".join(sorted(set(dead))))
print(f"{root}: {len(pages)} pages, no dead link")
PYTHON

# A bill of materials (CycloneDX 1.6, JSON) of what a binary links.
#
#   awk -v when=2026-01-01T00:00:00Z -f hack/sbom.awk Cargo.lock TREE
#
# TREE is what `cargo tree --prefix depth --format '|{p}|{l}|'` prints. Its first line is the binary's package. What a package needs
# stands below its first mention alone; cargo marks the others with (*). Names, versions and licences need no escapes in JSON.

function unquoted(text) {
  gsub(/"/, "", text)
  return text
}

# The fields that the binary and its parts have in common.
function described(ref, type, indent, text) {
  split(ref, half, "@")
  text = indent "\"type\": \"" type "\",\n" indent "\"bom-ref\": \"" ref "\",\n"
  text = text indent "\"name\": \"" half[1] "\",\n" indent "\"version\": \"" half[2] "\""
  if (licence[ref] != "") text = text ",\n" indent "\"licenses\": [{\"expression\": \"" licence[ref] "\"}]"
  return text
}

FNR == NR {
  if ($1 == "name") locked = unquoted($3)
  if ($1 == "version") locked_version = unquoted($3)
  # What has a checksum came from the registry.
  if ($1 == "checksum") checksum[locked "@" locked_version] = unquoted($3)
  next
}

{
  split($0, part, "|")
  split(part[2], word, " ")
  depth = part[1] + 0
  ref = word[1] "@" substr(word[2], 2)
  at[depth] = ref
  if (!(ref in licence)) {
    refs[count++] = ref
    # Before SPDX had expressions, a slash stood for the choice.
    gsub("/", " OR ", part[3])
    licence[ref] = part[3]
  }
  if (depth > 0 && !((at[depth - 1], ref) in seen)) {
    parent = at[depth - 1]
    seen[parent, ref] = 1
    needs[parent] = needs[parent] (needs[parent] == "" ? "" : ", ") "\"" ref "\""
  }
}

END {
  if (count == 0) exit 1
  print "{\n  \"bomFormat\": \"CycloneDX\",\n  \"specVersion\": \"1.6\",\n  \"version\": 1,"
  print "  \"metadata\": {\n    \"timestamp\": \"" when "\",\n    \"component\": {"
  print described(refs[0], "application", "      ") "\n    }\n  },\n  \"components\": ["
  for (i = 1; i < count; i++) {
    ref = refs[i]
    split(ref, half, "@")
    text = described(ref, "library", "      ")
    if (ref in checksum) {
      # A + in a version is a blank in a URL.
      purl = ref
      gsub(/\+/, "%2B", purl)
      text = text ",\n      \"purl\": \"pkg:cargo/" purl "\""
      text = text ",\n      \"hashes\": [{\"alg\": \"SHA-256\", \"content\": \"" checksum[ref] "\"}]"
    }
    print "    {\n" text "\n    }" (i + 1 < count ? "," : "")
  }
  print "  ],\n  \"dependencies\": ["
  for (i = 0; i < count; i++)
    print "    {\"ref\": \"" refs[i] "\", \"dependsOn\": [" needs[refs[i]] "]}" (i + 1 < count ? "," : "")
  print "  ]\n}"
}

# A bill of materials (CycloneDX 1.6, JSON) of what a binary links, or of an image with this binary and Debian packages.
#
#   awk -v when=2026-01-01T00:00:00Z -f hack/sbom.awk Cargo.lock TREE
#   awk -v when=2026-01-01T00:00:00Z -v image=DIGEST -v distro=debian-12 -f hack/sbom.awk Cargo.lock TREE PACKAGES
#
# TREE is what `cargo tree --prefix depth --format '|{p}|{l}|'` prints. Its first line is the binary's package. What a package needs
# stands below its first mention alone; cargo marks the others with (*). Names, versions and licences need no escapes in JSON.
# PACKAGES is what hack/image-root.sh prints: name, version, architecture and checksum on each line. DIGEST is that of the manifest.

function unquoted(text) {
  gsub(/"/, "", text)
  return text
}

# As it stands in a purl.
function encoded(version) {
  gsub(/\+/, "%2B", version)
  gsub(/:/, "%3A", version)
  return version
}

# The fields that all components have, and a checksum if there is one.
function described(type, ref, name, version, sum, indent, text) {
  text = indent "\"type\": \"" type "\",\n" indent "\"bom-ref\": \"" ref "\",\n"
  text = text indent "\"name\": \"" name "\",\n" indent "\"version\": \"" version "\""
  if (licence[ref] != "") text = text ",\n" indent "\"licenses\": [{\"expression\": \"" licence[ref] "\"}]"
  if (purl[ref] != "") text = text ",\n" indent "\"purl\": \"" purl[ref] "\""
  if (sum != "") text = text ",\n" indent "\"hashes\": [{\"alg\": \"SHA-256\", \"content\": \"" sum "\"}]"
  return text
}

# A crate is named by name and version.
function of_crate(type, ref, indent, half) {
  split(ref, half, "@")
  if (ref in checksum) purl[ref] = "pkg:cargo/" half[1] "@" encoded(half[2])
  return described(type, ref, half[1], half[2], checksum[ref], indent)
}

function need(who, ref) {
  needs[who] = needs[who] (needs[who] == "" ? "" : ", ") "\"" ref "\""
}

FNR == NR {
  if ($1 == "name") locked = unquoted($3)
  if ($1 == "version") locked_version = unquoted($3)
  # What has a checksum came from the registry.
  if ($1 == "checksum") checksum[locked "@" locked_version] = unquoted($3)
  next
}

# A line of PACKAGES: those of the tree begin with a depth.
!/^[0-9]+\|/ {
  split(distro, word, "-")
  ref = "pkg:deb/" word[1] "/" $1 "@" encoded($2) "?arch=" $3 "&distro=" distro
  purl[ref] = ref
  debs[++deb_count] = ref
  deb[ref] = described("library", ref, $1, $2, $4, "      ")
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
    seen[at[depth - 1], ref] = 1
    need(at[depth - 1], ref)
  }
}

END {
  if (count == 0) exit 1
  total = 0
  if (image != "") {
    split(refs[0], half, "@")
    split(image, word, ":")
    about = described("container", image, half[1], half[2], word[2], "      ")
    components[++total] = of_crate("application", refs[0], "      ")
    need(image, refs[0])
    for (i = 1; i <= deb_count; i++) need(image, debs[i])
    all[++edges] = image
  } else {
    about = of_crate("application", refs[0], "      ")
  }
  for (i = 0; i < count; i++) {
    if (i > 0) components[++total] = of_crate("library", refs[i], "      ")
    all[++edges] = refs[i]
  }
  for (i = 1; i <= deb_count; i++) {
    components[++total] = deb[debs[i]]
    all[++edges] = debs[i]
  }
  print "{\n  \"bomFormat\": \"CycloneDX\",\n  \"specVersion\": \"1.6\",\n  \"version\": 1,"
  print "  \"metadata\": {\n    \"timestamp\": \"" when "\",\n    \"component\": {"
  print about "\n    }\n  },\n  \"components\": ["
  for (i = 1; i <= total; i++) print "    {\n" components[i] "\n    }" (i < total ? "," : "")
  print "  ],\n  \"dependencies\": ["
  for (i = 1; i <= edges; i++) print "    {\"ref\": \"" all[i] "\", \"dependsOn\": [" needs[all[i]] "]}" (i < edges ? "," : "")
  print "  ]\n}"
}

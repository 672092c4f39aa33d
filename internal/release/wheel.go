package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
)

// wheel returns a Python wheel with the package mquine, which contains the command. PEP 427 defines
// the format: a zip file with metadata and a list of checksums.
func (r *release) wheel(t target, command entry) (entry, error) {
	version, err := pythonVersion(r.version)
	if err != nil {
		return entry{}, err
	}
	info := "mquine-" + version + ".dist-info/"
	var tags strings.Builder
	for tag := range strings.SplitSeq(t.wheel, ".") {
		fmt.Fprintf(&tags, "Tag: py3-none-%s\n", tag)
	}
	entries := []entry{{name: "mquine/bin/" + command.name, data: command.data, executable: true}}
	for _, m := range r.modules {
		m.name = "mquine/" + m.name
		entries = append(entries, m)
	}
	entries = append(entries,
		entry{name: info + "METADATA", data: fmt.Appendf(nil, metadata, version, r.readme)},
		entry{name: info + "WHEEL", data: fmt.Appendf(nil,
			"Wheel-Version: 1.0\nGenerator: mquine\nRoot-Is-Purelib: false\n%s", tags.String())},
		entry{name: info + "entry_points.txt", data: []byte("[console_scripts]\nmquine = mquine.__main__:main\n")},
		entry{name: info + "LICENSE", data: r.license},
	)
	record := &bytes.Buffer{}
	for _, e := range entries {
		sum := sha256.Sum256(e.data)
		fmt.Fprintf(record, "%s,sha256=%s,%d\n", e.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(e.data))
	}
	fmt.Fprintf(record, "%sRECORD,,\n", info)
	entries = append(entries, entry{name: info + "RECORD", data: record.Bytes()})
	data, err := zipped(entries, r.time)
	return entry{name: fmt.Sprintf("mquine-%s-py3-none-%s.whl", version, t.wheel), data: data}, err
}

const metadata = `Metadata-Version: 2.1
Name: mquine
Version: %s
Summary: Evaluate, train and benchmark knowledge graph embeddings
License: Apache-2.0
Project-URL: Source, https://github.com/mquine/mquine
Requires-Python: >=3.8
Description-Content-Type: text/markdown

%s`

var (
	// pseudoVersion matches the versions that Go gives to commits without a tag.
	pseudoVersion = regexp.MustCompile(`^v(\d+\.\d+\.\d+)-(?:.*\.)?(\d{14})-([0-9a-f]{12})(\+dirty)?$`)
	taggedVersion = regexp.MustCompile(`^v(\d+\.\d+\.\d+)(?:-(alpha|beta|rc)\.?(\d+))?(\+dirty)?$`)
)

// pythonVersion returns a Go version in the form of PEP 440: v1.2.3-rc.1 becomes 1.2.3rc1, and a
// commit without a tag becomes a development version such as 0.0.0.dev20261123150000+643b496abcde.
func pythonVersion(version string) (string, error) {
	if m := pseudoVersion.FindStringSubmatch(version); m != nil {
		return fmt.Sprintf("%s.dev%s+%s%s", m[1], m[2], m[3], strings.Replace(m[4], "+", ".", 1)), nil
	}
	m := taggedVersion.FindStringSubmatch(version)
	if m == nil {
		return "", fmt.Errorf("%s cannot be the version of a Python package", version)
	}
	stage := map[string]string{"alpha": "a", "beta": "b", "rc": "rc"}[m[2]]
	return m[1] + stage + m[3] + m[4], nil
}

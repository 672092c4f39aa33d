package lint

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	recordName   = regexp.MustCompile(`^(\d{4})-[a-z0-9-]+\.md$`)
	recordTitle  = regexp.MustCompile(`^# (\d{4}): (.+)$`)
	recordStatus = regexp.MustCompile(`^(\d{4}-\d\d-\d\d), (accepted|superseded|rejected)\b`)
)

// Every decision has a number, a date and a status, and is listed in docs/decisions/README.md.
func TestDecisionsAreComplete(t *testing.T) {
	var found failures
	const folder = "docs/decisions/"
	var index string
	var records []file
	for _, f := range sources(t, ".md") {
		switch {
		case f.name == folder+"README.md":
			index = string(f.text)
		case strings.HasPrefix(f.name, folder):
			records = append(records, f)
		}
	}
	for i, f := range records {
		name := path.Base(f.name)
		lines := f.lines()
		number := fmt.Sprintf("%04d", i+1)
		if m := recordName.FindStringSubmatch(name); m == nil || m[1] != number {
			found.add(f.name, 1, "the name must begin with %s-", number)
		}
		title := recordTitle.FindStringSubmatch(lines[0])
		if title == nil || title[1] != number || len(lines) < 3 {
			found.add(f.name, 1, "want the title \"# %s: …\"", number)
			continue
		}
		status := recordStatus.FindStringSubmatch(lines[2])
		if status == nil {
			found.add(f.name, 3, "want a date and a status, such as \"2026-11-23, accepted.\"")
			continue
		}
		row := fmt.Sprintf("| [%s](%s) | %s |", number, name, status[1])
		if !strings.Contains(index, row) || !strings.Contains(index, " | "+title[2]+" | ") {
			found.add(folder+"README.md", 1, "want a row that begins with %q, with the title of the record", row)
		}
	}
	found.report(t)
}

package run

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// SearchFile is the file that identifies the folder of a search. The trials of a search are runs in
// subfolders of that folder.
const SearchFile = "search.yaml"

// TrialDir returns the folder of a trial, given the folder of its search. Trials are numbered from
// 1.
func TrialDir(search string, trial int) string {
	return filepath.Join(search, fmt.Sprintf("trial-%03d", trial))
}

var trialName = regexp.MustCompile(`^trial-\d{3,}$`)

// searchOf returns the folder of the search whose trial is in dir, or "" if dir does not contain a
// trial.
func searchOf(dir string) string {
	absolute, err := filepath.Abs(dir)
	if err != nil || !trialName.MatchString(filepath.Base(absolute)) {
		return ""
	}
	parent := filepath.Dir(absolute)
	if _, err := os.Stat(filepath.Join(parent, SearchFile)); err != nil {
		return ""
	}
	return parent
}

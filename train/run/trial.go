package run

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// SearchFile is the file by which the folder of a search is known, whose trials are runs in its folders.
const SearchFile = "search.yaml"

// TrialDir returns the folder of a trial, from 1, of the search in a folder.
func TrialDir(search string, trial int) string {
	return filepath.Join(search, fmt.Sprintf("trial-%03d", trial))
}

var trialName = regexp.MustCompile(`^trial-\d{3,}$`)

// searchOf returns the folder of the search that the run in a folder is a trial of, or "" if it is none.
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

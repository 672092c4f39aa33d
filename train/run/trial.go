package run

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// SearchFile is the file that identifies the folder of a search. The trials of a search are runs in
// its subfolders.
const SearchFile = "search.yaml"

// TrialDir returns the folder of a trial of the search in a folder. Trials count from 1.
func TrialDir(search string, trial int) string {
	return filepath.Join(search, fmt.Sprintf("trial-%03d", trial))
}

var trialName = regexp.MustCompile(`^trial-\d{3,}$`)

// searchOf returns the folder of the search that has the run in dir as a trial, or "" if there is
// none.
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

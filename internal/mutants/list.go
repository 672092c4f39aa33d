package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// list is a YAML file of mutations.
type list struct {
	name string
	// Title and About introduce the list in the documentation.
	Title, About string
	// Package is the default package of the mutations.
	Package   string
	Mutations []*mutation
}

// mutation is a wrong change to the code, with the tests that must fail because of it.
type mutation struct {
	// Name describes the wrong behaviour in plain words.
	Name string
	// The mutation replaces Old with New in File, a path with slashes, relative to the root. If
	// After is empty, Old must occur once. Otherwise After must occur once, and the mutation
	// replaces the first Old after it.
	File, After, Old, New string
	// Package and Test select the tests that must fail in short mode. Test is a pattern for go test
	// -run.
	Package, Test string
	// Hangs means that the change should make the tests hang. A hang then counts as caught.
	Hangs bool
	// Equivalent, if not empty, says why the change cannot affect results. The tests must then
	// pass.
	Equivalent string

	// The results of a run.
	verdict verdict
	detail  string // the failed tests, or an error
}

type lists []*list

// loadLists reads the lists whose paths match a glob pattern.
func loadLists(pattern string) (lists, error) {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", pattern, err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no list of mutations matches %s", pattern)
	}
	var all lists
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		l := &list{name: strings.TrimSuffix(filepath.Base(file), ".yaml")}
		d := yaml.NewDecoder(bytes.NewReader(data))
		d.KnownFields(true)
		if err := d.Decode(l); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if err := l.check(); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, l)
	}
	return all, nil
}

// check sets default packages and reports mistakes in the list.
func (l *list) check() error {
	if l.Title == "" {
		return errors.New("the list needs a title")
	}
	seen := map[string]bool{}
	for i, m := range l.Mutations {
		if m.Package == "" {
			m.Package = l.Package
		}
		switch _, err := regexp.Compile(m.Test); {
		case m.Name == "" || m.File == "" || m.Old == "" || m.Package == "" || m.Test == "":
			return fmt.Errorf("mutation %d (%q) needs name, file, old, package and test", i+1, m.Name)
		case err != nil:
			return fmt.Errorf("%s: test: %w", m.Name, err)
		case m.Old == m.New:
			return fmt.Errorf("%s: old and new are the same", m.Name)
		case seen[m.Name]:
			return fmt.Errorf("two mutations have the name %q", m.Name)
		}
		seen[m.Name] = true
	}
	return nil
}

// matching returns the mutations whose list/name matches the expression re.
func (all lists) matching(re *regexp.Regexp) (some lists) {
	for _, l := range all {
		part := *l
		part.Mutations = nil
		for _, m := range l.Mutations {
			if re.MatchString(l.name + "/" + m.Name) {
				part.Mutations = append(part.Mutations, m)
			}
		}
		if len(part.Mutations) > 0 {
			some = append(some, &part)
		}
	}
	return some
}

// count returns the number of mutations and the number of bad verdicts.
func (all lists) count() (total, bad int) {
	for _, l := range all {
		for _, m := range l.Mutations {
			total++
			if !m.verdict.good() {
				bad++
			}
		}
	}
	return total, bad
}

// apply returns the text of the file with the mutation.
func (m *mutation) apply(text string) (string, error) {
	from := 0
	if m.After != "" {
		if n := strings.Count(text, m.After); n != 1 {
			return "", fmt.Errorf("%s contains the text of \"after\" %d times: %s", m.File, n, m.After)
		}
		from = strings.Index(text, m.After) + len(m.After)
	}
	at := strings.Index(text[from:], m.Old)
	if n := strings.Count(text[from:], m.Old); n == 0 || n > 1 && m.After == "" {
		return "", fmt.Errorf("%s contains the old text %d times: %s", m.File, n, m.Old)
	}
	at += from
	return text[:at] + m.New + text[at+len(m.Old):], nil
}

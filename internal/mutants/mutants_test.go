package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const toy = "internal/mutants/testdata/toy"

func toyRunner(t *testing.T, timeout time.Duration) *runner {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	return &runner{root: root, jobs: 2, timeout: timeout, progress: io.Discard}
}

// toyMutation is a mutation of the toy package.
func toyMutation(old, changed, test string) *mutation {
	name, file := old+" → "+changed, toy+"/toy.go"
	return &mutation{Name: name, File: file, Old: old, New: changed, Package: "./" + toy, Test: test}
}

func TestVerdicts(t *testing.T) {
	source := filepath.Join("testdata", "toy", "toy.go")
	before, err := os.ReadFile(source)
	require.NoError(t, err)

	wrong := toyMutation("a > b", "a < b", "TestMax")
	elsewhere := toyMutation("a > b", "a < b", "TestSum")
	same := toyMutation("a > b", "a >= b", "TestMax")
	same.Equivalent = "the numbers are equal then"
	notSame := toyMutation("a > b", "a < b", "TestMax")
	notSame.Equivalent = "a wrong claim"
	syntax := toyMutation("a > b", "a >> b", "TestMax")
	absent := toyMutation("a == b", "a < b", "TestMax")
	twice := toyMutation("return ", "panic(1); return ", "TestMax")
	anchored := toyMutation("return ", "panic(1); return ", "TestMax")
	anchored.After = "if a > b {"
	random := toyMutation("sum += i", "sum -= i", "TestSumOfAny")
	noFile := toyMutation("a > b", "a < b", "TestMax")
	noFile.File = toy + "/none.go"
	l := &list{Mutations: []*mutation{
		wrong, elsewhere, same, notSame, syntax, absent, twice, anchored, random, noFile,
	}}
	require.NoError(t, toyRunner(t, time.Hour).run(context.Background(), lists{l}))

	assert.Equal(t, caught, wrong.verdict)
	assert.Equal(t, "TestMax", wrong.detail)
	assert.Equal(t, survived, elsewhere.verdict)
	assert.Equal(t, equivalent, same.verdict)
	assert.Equal(t, notEquivalent, notSame.verdict)
	assert.Equal(t, notBuilt, syntax.verdict)
	assert.Contains(t, syntax.detail, "toy.go")
	assert.Equal(t, notFound, absent.verdict)
	assert.Equal(t, notFound, twice.verdict)
	assert.Contains(t, twice.detail, "3 times")
	assert.Equal(t, caught, anchored.verdict)
	assert.Equal(t, "TestMax", anchored.detail, "a test that panics")
	assert.Equal(t, caught, random.verdict)
	assert.NoDirExists(t, filepath.Join("testdata", "toy", "testdata"), "rapid wrote failures to the working tree")
	assert.Equal(t, notFound, noFile.verdict)
	total, bad := lists{l}.count()
	assert.Equal(t, []int{10, 6}, []int{total, bad})

	after, err := os.ReadFile(source)
	require.NoError(t, err)
	assert.Equal(t, string(before), string(after), "the working tree changed")
}

func TestHang(t *testing.T) {
	unexpected, expected := toyMutation("i++", "i *= 1", "TestSum"), toyMutation("i++", "i *= 1", "TestSum")
	expected.Hangs = true
	l := &list{Mutations: []*mutation{unexpected, expected}}
	require.NoError(t, toyRunner(t, time.Second).run(context.Background(), lists{l}))
	assert.Equal(t, hung, unexpected.verdict)
	assert.Equal(t, caught, expected.verdict)
}

// There are no verdicts if the tests fail without a mutation or if there are no tests.
func TestUnchangedCodeMustPass(t *testing.T) {
	for test, want := range map[string]string{"TestWrong": "fail without a mutation", "TestNothing": "has no test"} {
		l := &list{Mutations: []*mutation{toyMutation("a > b", "a < b", test)}}
		assert.ErrorContains(t, toyRunner(t, time.Hour).run(context.Background(), lists{l}), want)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	m := toyMutation("a > b", "a < b", "TestMax")
	assert.Error(t, toyRunner(t, time.Hour).run(ctx, lists{{Mutations: []*mutation{m}}}))
	assert.Equal(t, notRun, m.verdict)
}

func TestJudgeKilledTests(t *testing.T) {
	killed := exec.Command("sh", "-c", "kill -9 $$").Run()
	m := toyMutation("a > b", "a < b", "TestMax")
	assert.Error(t, m.judge(nil, killed, false), "killed, for example for lack of memory: no test has failed")
	assert.Equal(t, notRun, m.verdict)
}

// Every list is valid, every change matches the code, and every pattern matches a test of its
// package.
func TestListsFitTheCode(t *testing.T) {
	all, err := loadLists("*.yaml")
	require.NoError(t, err)
	root := filepath.Join("..", "..")
	for _, l := range all {
		for _, m := range l.Mutations {
			text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.File)))
			if !assert.NoError(t, err, "%s: %s", l.name, m.Name) {
				continue
			}
			_, err = m.apply(string(text))
			assert.NoError(t, err, "%s: %s", l.name, m.Name)
			has := hasTest(t, filepath.Join(root, m.Package), m.Test)
			assert.True(t, has, "%s: %s: %s has no test %s", l.name, m.Name, m.Package, m.Test)
		}
	}
}

// The committed page has a row for each mutation of the lists, and no others. Only a full run of
// the mutations can check whether the verdicts still hold.
func TestPageHasEveryMutation(t *testing.T) {
	all, err := loadLists("*.yaml")
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "mutants.md"))
	require.NoError(t, err)
	rows := strings.Count(string(page), "\n| ") - len(all) // without the heads of the tables
	total := 0
	for _, l := range all {
		total += len(l.Mutations)
		for _, m := range l.Mutations {
			row := fmt.Sprintf("\n| %s | %s | ", strings.ReplaceAll(m.Name, "|", `\|`), m.File)
			assert.Contains(t, string(page), row, "run make mutants")
		}
	}
	assert.Equal(t, total, rows, "run make mutants")
}

// hasTest reports whether a package has a test whose name matches.
func hasTest(t *testing.T, dir, pattern string) bool {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	top := regexp.MustCompile(strings.Split(pattern, "/")[0])
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, f := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(text, -1) {
			if top.Match(f[1]) {
				return true
			}
		}
	}
	return false
}

func TestLoadLists(t *testing.T) {
	const whole = "{name: a, file: f, old: x, new: y, package: ./p, test: T}"
	for text, want := range map[string]string{
		"title: T\nmutations: [" + whole + "]":                                             "",
		"title: T\npackage: ./p\nmutations: [{name: a, file: f, old: x, test: T}]":         "",
		"title: T\nmutations: [{name: a, file: f, old: x, new: y, package: ./p}]":          "needs name, file, old,",
		"title: T\nmutations: [{name: a, file: f, old: x, new: x, package: ./p, test: T}]": "the same",
		"title: T\nmutations: [{name: a, file: f, old: x, package: ./p, test: '('}]":       "test:",
		"title: T\nmutation: []": "mutation",
		"mutations: []":          "title",
		"title: T\nmutations: [" + whole + ", " + whole + "]": "two mutations",
	} {
		file := filepath.Join(t.TempDir(), "some.yaml")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o666))
		all, err := loadLists(file)
		if want != "" {
			assert.ErrorContains(t, err, want)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, "some", all[0].name)
		assert.Len(t, all.matching(regexp.MustCompile("^some/a$")), 1)
		assert.Empty(t, all.matching(regexp.MustCompile("^a$")))
	}
	_, err := loadLists(filepath.Join(t.TempDir(), "*.yaml"))
	assert.ErrorContains(t, err, "no list")
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"-none"}, {"argument"}, {"-jobs", "0"}, {"-doc", "x", "-run", "y"}} {
		assert.ErrorIs(t, command(context.Background(), args, io.Discard, io.Discard), flag.ErrHelp, "%v", args)
	}
	err := command(context.Background(), []string{"-lists", "*.yaml", "-run", "no such name"}, io.Discard, io.Discard)
	assert.ErrorContains(t, err, "no mutation")
}

func TestReports(t *testing.T) {
	l := &list{name: "toy", Title: "The toy", About: "All of it.", Mutations: []*mutation{
		{Name: "a | b", File: "f.go", Package: "./p", verdict: caught, detail: "TestA"},
		{Name: "c", File: "g.go", Package: "./p", verdict: survived},
	}}
	var out bytes.Buffer
	writeTable(&out, lists{l})
	assert.Contains(t, out.String(), "SURVIVED")
	page := string(markdown(lists{l}))
	assert.Contains(t, page, "Of 2 mutations, 1 are neither caught nor equivalent.")
	assert.Contains(t, page, "\n## The toy\n\nAll of it.\n\n"+
		"| mutation | file | verdict | caught by, or reason |\n|---|---|---|---|\n"+
		"| a \\| b | f.go | caught | TestA |\n| c | g.go | SURVIVED |  |\n")
}

package search

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/train"
	"github.com/mquine/mquine/train/internal/traintest"
	"github.com/mquine/mquine/train/internal/workdir"
	"github.com/mquine/mquine/train/run"
)

const resumeSpace = "dim: 4\nbatch: 128\nepochs: 6\nlearning_rate: {min: 1e-3, max: 1e-1, scale: log}\n"

// searchOfThree runs a search with three trials and stops it after the given number of jobs.
func searchOfThree(t *testing.T, jobs int) string {
	t.Helper()
	dir := createFolder(t, resumeSpace, Plan{Seed: 3, Rungs: 2, Trials: 3})
	s := openFolder(t, dir, machineOf(t, 1))
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.End = func(Trial) {
		if len(s.trials) == jobs {
			cancel()
		}
	}
	if jobs > 0 {
		require.ErrorIs(t, s.Run(ctx), context.Canceled)
	}
	return dir
}

func goOn(t *testing.T, dir string) error {
	t.Helper()
	s, err := Open(t.Context(), dir, Options{Machine: machineOf(t, 1)})
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Run(t.Context())
}

// If a search is cancelled and then cannot draw its plot, Run returns the second error alone, so its
// caller does not take the search for one that was only cancelled.
func TestCancelledSearchWithoutPlot(t *testing.T) {
	dir := searchOfThree(t, 1)
	plot := filepath.Join(dir, trialsPlotName)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	m := machineOf(t, 1)
	m.Progress = func(p train.Progress) {
		if p.Epoch == 2 && ctx.Err() == nil {
			require.NoError(t, os.Remove(plot))
			require.NoError(t, os.Mkdir(plot, 0o700))
			cancel()
		}
	}
	s := openFolder(t, dir, m)
	defer s.Close()
	err := s.Run(ctx)
	require.ErrorContains(t, err, plot)
	assert.NotErrorIs(t, err, context.Canceled)
}

// A search with a larger number of trials continues with the trials that it would have had from the start,
// and can be interrupted and extended again.
func TestExtend(t *testing.T) {
	four := Plan{Seed: 3, Rungs: 2, Trials: 4}
	dir := createFolder(t, resumeSpace, four)
	require.NoError(t, goOn(t, dir))
	require.NoError(t, extend(t, dir, 4))
	before := withoutTime(t, dir)
	require.NoError(t, goOn(t, dir))
	assert.Equal(t, before, withoutTime(t, dir))
	for trials := 5; trials <= 7; trials++ {
		require.NoError(t, extend(t, dir, trials))
		require.NoError(t, goOn(t, dir))
		require.NoError(t, goOn(t, dir))
	}
	after := withoutTime(t, dir)
	assert.True(t, strings.HasPrefix(after, before))

	seven := four
	seven.Trials = 7
	alone := createFolder(t, resumeSpace, seven)
	require.NoError(t, goOn(t, alone))
	for line := range strings.Lines(withoutTime(t, alone)) {
		if strings.Contains(line, `"epochs":2,`) { // the first rung
			assert.Contains(t, after, line)
		}
	}
	assert.Equal(t, 7, strings.Count(after, `"epochs":2,`))

	assert.EqualError(t, extend(t, dir, 6),
		"the search in "+dir+" has up to 7 trials: give a larger number (--trials)")
	endless := createFolder(t, resumeSpace, Plan{Seed: 3, Rungs: 2})
	assert.EqualError(t, extend(t, endless, 6),
		"the search in "+endless+" has no limit on its trials, so their number (--trials) cannot be raised")
}

// extend extends a search and closes it.
func extend(t *testing.T, dir string, trials int) error {
	t.Helper()
	f, err := Open(t.Context(), dir, Options{Machine: machineOf(t, 1), Trials: trials})
	if err != nil {
		return err
	}
	return f.Close()
}

// A search that cannot continue is not extended.
func TestExtendChangesNothingInVain(t *testing.T) {
	dir := createFolder(t, resumeSpace, Plan{Seed: 3, Rungs: 2, Trials: 4})
	require.NoError(t, goOn(t, dir))
	plan, space := filepath.Join(dir, run.SearchFile), filepath.Join(dir, spaceName)
	before, err := os.ReadFile(plan)
	require.NoError(t, err)
	undo := traintest.Change(t, space, "\nseed: 1\n", "\nseed: {choice: [1, 2]}\n")
	require.ErrorContains(t, extend(t, dir, 5), "trials.jsonl:1: ")
	after, err := os.ReadFile(plan)
	require.NoError(t, err)
	assert.Equal(t, string(before), string(after))

	undo()
	require.NoError(t, extend(t, dir, 5))
	after, err = os.ReadFile(plan)
	require.NoError(t, err)
	assert.Contains(t, string(after), "trials: 5\n")
}

// The plan is read while the folder is locked, so Extend cannot replace it in between.
func TestPlanIsReadUnderLock(t *testing.T) {
	f := &Folder{Dir: createFolder(t, resumeSpace, Plan{Seed: 3, Rungs: 2, Trials: 4})}
	checked := 0
	ctx := traintest.HookedContext{Context: t.Context(), Hook: func() {
		checked++
		_, err := workdir.Acquire(f.path(run.SearchFile))
		assert.ErrorContains(t, err, "another process is using")
	}}
	require.NoError(t, f.lockPlan(ctx))
	require.NoError(t, f.Close())
	assert.Positive(t, checked)
	assert.Equal(t, 4, f.Plan.Trials)
}

// If a user trains a trial to its end, the trial's value at a rung stays the same, and the search
// continues as before.
func TestTrialTrainedBeyondItsRung(t *testing.T) {
	alone, dir := searchOfThree(t, 0), searchOfThree(t, 0)
	require.NoError(t, goOn(t, alone))
	// The user continued the first trial after it had begun and before its result was reported.
	s := openFolder(t, dir, machineOf(t, 1))
	job, _, err := s.scheduler.next()
	require.NoError(t, err)
	require.NoError(t, run.Create(s.RunDir(1), s.Plan.Data, s.Graph, job.Recipe))
	require.NoError(t, s.Close())
	require.NoError(t, takeOn(t, s.RunDir(1)))
	require.NoError(t, goOn(t, dir))
	assert.Equal(t, withoutTime(t, alone), withoutTime(t, dir))
	s = openFolder(t, dir, machineOf(t, 1))
	defer s.Close()
	r, err := run.Open(t.Context(), s.RunDir(1), run.Options{Machine: machineOf(t, 1)})
	require.NoError(t, err)
	assert.InDelta(t, (r.Log()[0].ProcessorSeconds+r.Log()[1].ProcessorSeconds)/60, s.trials[0].ProcessorMinutes, 1e-12)

	// Without the log, the trial's value at the rung is unknown.
	dir = searchOfThree(t, 0)
	require.NoError(t, os.Rename(r.Dir, filepath.Join(dir, "trial-001")))
	require.NoError(t, os.Remove(filepath.Join(dir, "trial-001", "log.jsonl")))
	assert.ErrorContains(t, goOn(t, dir),
		"trial-001/log.jsonl does not have all epochs up to 2, which the search needs: restore it")
}

// A trial cannot be extended, but a copy of it can.
func TestExtendRefusesTrials(t *testing.T) {
	dir := searchOfThree(t, 1)
	trial := filepath.Join(dir, "trial-001")
	want := " is a trial of the search in " + dir + ", whose trials all have 6 epochs: " +
		"copy it to another folder, and extend the copy"
	extend := func(trial string, epochs int) error {
		r, err := run.Open(t.Context(), trial, run.Options{Machine: machineOf(t, 1), Epochs: epochs})
		if err != nil {
			return err
		}
		return r.Close()
	}
	assert.EqualError(t, extend(trial, 9), trial+want)
	require.NoError(t, extend(trial, 6))
	t.Chdir(trial)
	assert.EqualError(t, extend(".", 9), "."+want)
	other := filepath.Join(t.TempDir(), "trial-001")
	require.NoError(t, os.CopyFS(other, os.DirFS(trial)))
	require.NoError(t, extend(other, 9))
	require.NoError(t, takeOn(t, other))
	require.NoError(t, goOn(t, dir))
}

// A search does not continue with a different space or data set.
func TestFolderWithOthers(t *testing.T) {
	dir := searchOfThree(t, 2)
	space := filepath.Join(dir, spaceName)
	for _, test := range []struct{ old, text, want string }{
		{"max: 0.1", "max: 0.5",
			`trials\.jsonl:1: trial 1 has learning_rate 0\.\d+, but the search gives it 0\.\d+: restore the file`},
		{"\nbatch: 128\n", "\nbatch: 64\n",
			`trial-001/config\.yaml does not match trial 1 of this search \(batch is 128 but was 64\): restore it`},
	} {
		undo := traintest.Change(t, space, test.old, test.text)
		err := goOn(t, dir)
		require.Error(t, err)
		assert.Regexp(t, test.want, err.Error())
		undo()
	}
	s := openFolder(t, dir, machineOf(t, 1))
	data := s.Graph.Dir
	require.NoError(t, s.Close())
	first, _, _ := strings.Cut(traintest.Contents(t, data)["valid.txt"], "\n")
	undo := traintest.Change(t, filepath.Join(data, "valid.txt"), first+"\n", "")
	assert.EqualError(t, goOn(t, dir), "the data set in "+data+" has changed since "+dir+
		" began: the valid split has 19 triples but had 20; restore it, or start again in another folder")
	undo()

	// Searches from earlier versions have no fingerprint.
	text := traintest.Contents(t, dir)[run.SearchFile]
	traintest.Change(t, filepath.Join(dir, run.SearchFile), text[strings.Index(text, "# the data set: sizes"):], "")
	require.NoError(t, goOn(t, dir))
}

// The trials share the graph of the search. A trial of another data set is an error.
func TestTrialsShareTheGraph(t *testing.T) {
	dir := searchOfThree(t, 0)
	s := openFolder(t, dir, machineOf(t, 1))
	defer s.Close()
	s.Begin = func(_ Job, r *run.Run) { assert.Same(t, s.Graph, r.Graph) }
	require.NoError(t, s.Run(t.Context()))

	other := traintest.FamiliesFolder(t)
	first, _, _ := strings.Cut(traintest.Contents(t, other)["valid.txt"], "\n")
	traintest.Change(t, filepath.Join(other, "valid.txt"), first+"\n", "")
	dir = searchOfThree(t, 0)
	s = openFolder(t, dir, machineOf(t, 1))
	defer s.Close()
	job, _, err := s.scheduler.next()
	require.NoError(t, err)
	require.NoError(t, run.Create(s.RunDir(1), other, traintest.OpenGraph(t, other), job.Recipe))
	r, err := run.Open(t.Context(), s.RunDir(1), run.Options{Machine: machineOf(t, 1)})
	require.NoError(t, err)
	require.NoError(t, r.TrainTo(t.Context(), 1, nil))
	require.NoError(t, r.Close())
	assert.ErrorContains(t, s.Run(t.Context()), "has changed since "+s.RunDir(1)+
		" began: the valid split has 20 triples but had 19")
}

// A search from an earlier version, whose files contain former names of options, resumes with the
// same trials.
func TestFolderOfFormerNames(t *testing.T) {
	const space = "dim: 4\nbatch: 128\nepochs: 2\nnegatives: {choice: [1vsall, kvsall]}\nema: {min: 0, max: 0.4}\n"
	dir := createFolder(t, space, Plan{Seed: 3, Rungs: 1, Trials: 4})
	require.NoError(t, goOn(t, dir))
	want := withoutTime(t, dir)
	for name, names := range map[string][]string{
		spaceName: {
			"\nnegatives: {choice: [1vsall,", "\nnegatives: {choice: [all,", "\nema:", "\naverage:",
		},
		trialsName: {
			`"ema":`, `"average":`, `"ema":`, `"average":`, `"negatives":"1vsall"`, `"negatives":"all"`,
		},
		"trial-001/" + run.ConfigFile: {"\nema:", "\naverage:", "\nvalid_metric:", "\nstop_metric:"},
	} {
		for i := 0; i < len(names); i += 2 {
			traintest.Change(t, filepath.Join(dir, name), names[i], names[i+1])
		}
	}
	traintest.Change(t, filepath.Join(dir, run.SearchFile), "trials: 4", "trials: 5")
	require.NoError(t, goOn(t, dir))
	got := withoutTime(t, dir)
	assert.True(t, strings.HasPrefix(got, want), "written with the current names")
	assert.Equal(t, 5, strings.Count(got, "\n"))
}

// If the folder of a search is removed while the search runs, no part of the folder reappears.
func TestSearchRemoved(t *testing.T) {
	dir := searchOfThree(t, 0)
	s := openFolder(t, dir, machineOf(t, 1))
	defer s.Close()
	s.End = func(Trial) { require.NoError(t, os.RemoveAll(dir)) }
	assert.EqualError(t, s.Run(t.Context()), filepath.Join(dir, run.SearchFile)+traintest.Gone)
	assert.NoDirExists(t, dir)
}

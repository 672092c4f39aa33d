package engine

import (
	"errors"
	"fmt"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
)

// Workers holds a model's workers, one for each goroutine. Each is created on first use.
type Workers struct {
	job  *Job
	list []model.Worker
}

// NewWorkers returns the workers for the job's threads.
func NewWorkers(j *Job) *Workers { return &Workers{j, make([]model.Worker, j.Threads)} }

// Get returns the worker of a goroutine.
func (w *Workers) Get(i int) model.Worker {
	if w.list[i] == nil {
		w.list[i] = w.job.newWorker()
	}
	return w.list[i]
}

func (j *Job) newWorker() model.Worker { return &watchedWorker{j.Model.NewWorker(j.Backend), j} }

// watchedWorker tells its job of reference scores that are not finite.
type watchedWorker struct {
	model.Worker
	job *Job
}

func (w *watchedWorker) Reference(q kg.Query, e int32) float64 {
	score := w.Worker.Reference(q, e)
	if score-score != 0 {
		w.job.overflow.CompareAndSwap(nil, &OverflowError{q.Triple(e), score})
	}
	return score
}

// OverflowError is the error for a reference score that is infinite or NaN.
type OverflowError struct {
	Triple kg.Triple
	Score  float64
}

func (e *OverflowError) Error() string {
	t := e.Triple
	return e.about(fmt.Sprintf("with head %d, relation %d and tail %d (counted from 0)", t.Head, t.Relation, t.Tail))
}

// Labelled returns an error that names the triple by its labels.
func (e *OverflowError) Labelled(entities, relations *kg.Vocabulary) error {
	t := e.Triple
	if int(max(t.Head, t.Tail)) >= entities.Len() || int(t.Relation) >= relations.Len() {
		return e // the triple is of another graph, such as the graph of an engine's test
	}
	return errors.New(e.about(fmt.Sprintf("(%s, %s, %s)",
		entities.Label(t.Head), relations.Label(t.Relation), entities.Label(t.Tail))))
}

func (e *OverflowError) about(triple string) string {
	return fmt.Sprintf("the score of the triple %s is %v: the parameters of the model or the weights of the ensemble "+
		"are too large, or the checkpoint was read while another program changed it: use an earlier checkpoint or "+
		"lower weights", triple, e.Score)
}

// CheckScores returns an OverflowError if a worker computed a reference score that is infinite or NaN.
// NaN is neither better than any score nor equal to it, so a model whose scores are all NaN would have
// perfect ranks.
func (j *Job) CheckScores() error {
	if e := j.overflow.Load(); e != nil {
		return e
	}
	return nil
}

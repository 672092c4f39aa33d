package main

import (
	"context"
	"io"
	"time"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
)

// session holds what eval, predict and discover open: the GPUs, the checkpoints and the data set.
type session struct {
	*subject
	log   io.Writer // for progress and notes
	meter *meter
	// options has the backend, the engine and the threads that the flags select. The command adds
	// more before prepare.
	options rank.Options
	index   *kg.Index // known answers; nil before it is built
	loading time.Time // when reading the checkpoints and the data set began
	release func()    // closes the GPUs
}

// openSession opens what the flags select. The caller must close the session.
func openSession(ctx context.Context, log io.Writer, in inputs, c compute, g gpus) (*session, error) {
	backend, err := c.resolve()
	if err != nil {
		return nil, err
	}
	if err := in.ensemble.checkDevices(c, g); err != nil {
		return nil, err
	}
	s := &session{log: log, meter: newMeter(log)}
	s.options = rank.Options{Backend: backend, Threads: c.threads}
	if s.options.Engine, s.release, err = g.open(c, log, s.meter); err != nil {
		return nil, err
	}
	s.loading = time.Now()
	if s.subject, err = in.open(ctx, log); err != nil {
		s.release()
		return nil, err
	}
	return s, nil
}

// prepare builds the index, fits the weights of the ensemble and resolves the options.
func (s *session) prepare(ctx context.Context, e *ensemble) (err error) {
	if s.index, err = s.buildIndex(ctx); err != nil {
		return err
	}
	if err := e.fit(ctx, s.log, s.meter, s.subject, s.index, s.options); err != nil {
		return err
	}
	s.options, err = s.options.Resolve(ctx, s.model)
	return err
}

func (s *session) close() {
	s.subject.close()
	s.release()
}

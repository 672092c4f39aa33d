package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/mquine/mquine/kernel/cuda"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/rank"
	"github.com/mquine/mquine/rank/gpu"
)

// session holds what eval, predict and discover open: the GPUs, the checkpoints and the data set.
type session struct {
	*subject
	log   io.Writer // for progress and notes
	meter *meter
	// options has the backend, the engine and the threads that the flags select. The command adds
	// more before prepare. The engine becomes nil when the processor takes its place.
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
	if s.options.Engine, s.release, err = g.open(c, s.giveUp); err != nil {
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

// giveUp notes, even with --quiet, that the processor computes because of an error of the GPUs. The ranking
// that calls giveUp has its copy of the options.
func (s *session) giveUp(err error) {
	s.meter.clear()
	printNote(always(s.log), "using the processor: %v", err)
	s.options.Engine = nil
}

// computed returns the provenance of a result that has been computed with the options of the session.
func (s *session) computed(ctx context.Context) metrics.Provenance {
	gpus := ""
	if e := s.options.Engine; e != nil {
		gpus = e.String()
	}
	return computedOn(ctx, s.options.Backend.Tier.String(), s.options.Threads, gpus)
}

// explain is like subject.explain. To an error of a GPU, or about a model that GPUs cannot rank, it adds
// what to do.
func (s *session) explain(ctx context.Context, err error) error {
	failure, unsupported := (*cuda.DeviceError)(nil), (*gpu.UnsupportedError)(nil)
	if errors.As(err, &failure) || errors.As(err, &unsupported) {
		return fmt.Errorf("%w; %s", err, onProcessor)
	}
	return s.subject.explain(ctx, err)
}

func (s *session) close() {
	s.subject.close()
	s.release()
}

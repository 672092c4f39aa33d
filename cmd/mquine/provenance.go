package main

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/model/checkpoint"
)

// invocation is the command line and the time at which the process began.
type invocation struct {
	args  []string
	start time.Time
}

type invocationKey struct{}

// withInvocation returns a context that carries the command line for provenance.
func withInvocation(ctx context.Context, args []string, start time.Time) context.Context {
	return context.WithValue(ctx, invocationKey{}, invocation{args, start})
}

// provenance returns the program, the command line and the processor. The caller adds the other
// inputs of the result, such as the checkpoint and the data set.
func provenance(ctx context.Context) metrics.Provenance {
	p := metrics.Provenance{Machine: metrics.Machine{CPU: machine()}}
	p.Version, p.Revision = build()
	if call, ok := ctx.Value(invocationKey{}).(invocation); ok {
		p.Date = call.start.UTC().Truncate(time.Second)
		p.Command = shellCommand(append([]string{"mquine"}, call.args...)...)
	}
	return p
}

// computedOn is provenance with the tier and the number of threads of a computation, and with the
// names of the GPUs if they computed the result.
func computedOn(ctx context.Context, tier string, threads int, gpus string) metrics.Provenance {
	p := provenance(ctx)
	p.Machine.Tier, p.Machine.Threads = tier, threads
	if gpus != "" {
		p.Machine.Tier, p.Machine.CPU = cudaBackend, p.Machine.CPU+", "+gpus
	}
	return p
}

// build returns the version of the module and the commit, as far as the build recorded them.
func build() (version, revision string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", ""
	}
	changes := ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value
		case "vcs.modified":
			if s.Value == "true" {
				changes = "+changes"
			}
		}
	}
	if revision != "" {
		revision += changes
	}
	return info.Main.Version, revision
}

// describedData identifies a data set. digest is its checksum, or empty.
func describedData(g *kg.Graph, digest string) metrics.Data {
	return metrics.Data{
		Name: g.Name, SHA256: digest, Entities: g.Entities.Len(), Relations: g.Relations.Len(),
		Train: len(g.Splits[kg.Train]), Valid: len(g.Splits[kg.Valid]), Test: len(g.Splits[kg.Test]),
		LeftOut: metrics.LeftOutOf(g),
	}
}

// withLabel returns an identifier with its readable label in parentheses, if it has one.
func withLabel(identifier string, labels map[string]string) string {
	return text.WithLabel(identifier, labels[identifier])
}

// describedCheckpoint identifies a checkpoint. digest is its checksum, or empty.
func describedCheckpoint(c *checkpoint.Checkpoint, digest string) metrics.Checkpoint {
	m := c.Model.Config()
	return metrics.Checkpoint{
		Path: c.Path, SHA256: digest,
		Model: m.Model, Dim: m.Dim, Reciprocal: m.Reciprocal, InverseWeight: m.InverseWeight, Notes: c.Notes,
	}
}

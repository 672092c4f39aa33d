package kg

import "sync"

// OpenProgress is how far Open has come.
type OpenProgress struct {
	// Bytes of the files, as they are stored, are read of Total; named pipes do not count.
	Bytes, Total int64
	// Lines counts the lines of all files so far.
	Lines int64
}

// ReportProgress has Open report how far it has come: before the first line, once in 65,536 lines of a file,
// and at its end. Calls do not overlap. A nil report is never called.
func ReportProgress(report func(OpenProgress)) OpenOption {
	return func(o *opening) {
		if report != nil {
			o.progress = &progress{report: report}
		}
	}
}

// progress adds up what the readers of several files report; nil reports to nobody.
type progress struct {
	mu     sync.Mutex
	sofar  OpenProgress
	report func(OpenProgress)
}

// start says how many bytes there are to read.
func (p *progress) start(total int64) {
	if p != nil {
		p.sofar = OpenProgress{Total: total}
		p.report(p.sofar)
	}
}

func (p *progress) add(bytes, lines int64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sofar.Bytes += bytes
	p.sofar.Lines += lines
	p.report(p.sofar)
}

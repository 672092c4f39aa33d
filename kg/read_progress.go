package kg

import "sync"

// OpenProgress says how much of a data set Open has read.
type OpenProgress struct {
	// Bytes counts the stored (compressed) bytes that Open has read, and Total is the size of all
	// files. Named pipes do not count towards Total.
	Bytes, Total int64
	// Lines counts the lines that Open has read from all files.
	Lines int64
}

// ReportProgress makes Open call the function report before the first line, after every 65,536
// lines of a file and at the end of every file. Calls do not overlap. A nil report is allowed.
func ReportProgress(report func(OpenProgress)) OpenOption {
	return func(o *opening) {
		if report != nil {
			o.progress = &progress{report: report}
		}
	}
}

// progress adds up the progress of concurrent readers. A nil *progress reports nothing.
type progress struct {
	mu     sync.Mutex
	sofar  OpenProgress
	report func(OpenProgress)
}

// start sets the number of bytes to read.
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

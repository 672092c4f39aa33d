package catalogue

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/mquine/mquine/internal/atomicfile"
)

// errStalled and errSlow end a connection that has not failed but is too slow.
var (
	errStalled = errors.New("the server sent nothing for too long")
	errSlow    = errors.New("the server sends less than 1 KiB a second")
)

// redirectError is a redirection that the client refuses to follow. Another attempt would not help.
type redirectError struct{ what string }

func (e redirectError) Error() string { return "the server redirects " + e.what }

// newClient returns a client that follows redirections to http and https addresses.
func newClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			ForceAttemptHTTP2:   true,
			TLSHandshakeTimeout: 10 * time.Second,
			// If a server sends more data on an idle connection, the transport writes to the
			// standard logger. A data set has few files, and a connection for each is cheap.
			DisableKeepAlives: true,
		},
		CheckRedirect: func(request *http.Request, via []*http.Request) error {
			const most = 10
			switch {
			case request.URL.Scheme != "http" && request.URL.Scheme != "https":
				return redirectError{fmt.Sprintf("to %s, which is not an http or https address", request.URL)}
			case len(via) > most:
				return redirectError{fmt.Sprintf("more than %d times", most)}
			}
			return nil
		},
	}
}

// statusError is a response whose HTTP status is an error.
type statusError struct {
	address string
	code    int
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s: the server answers %d %s", e.address, e.code, http.StatusText(e.code))
}

// transientError is an error after which another attempt may succeed.
type transientError struct{ error }

func (e transientError) Unwrap() error { return e.error }

// resumption identifies the remote file of a partial download. It is stored as JSON in a file next
// to the downloaded part.
type resumption struct {
	URL string `json:"url"`
	// Validator identifies the version of the file: a strong entity tag or a date for If-Range
	// (RFC 9110, section 13.1.5).
	Validator string `json:"validator"`
}

func resumptionFile(part string) string { return part + ".json" }

// download fetches the file at address and stores it at the path part. It resumes a partial
// download if the server can, and retries after transient errors. After an error, the file at part
// stays for the next call. If the file has more than most bytes, download returns an error and
// removes the file at part.
func (f *Fetcher) download(ctx context.Context, address, part string, most int64) error {
	var reached int64 // size of part when failures was last reset
	failures := 0
	for {
		err := f.attempt(ctx, address, part, most)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !errors.As(err, new(transientError)) {
			return err
		}
		if info, statErr := os.Stat(part); statErr == nil && info.Size() >= reached+f.least {
			reached, failures = info.Size(), 0
		}
		if failures == len(f.backoff) {
			return fmt.Errorf("%w (given up after %d attempts)", err, failures+1)
		}
		wait := f.backoff[failures]
		failures++
		f.log("%v; trying again in %v", err, wait)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// attempt makes one request and appends the body to the file at the path part.
func (f *Fetcher) attempt(ctx context.Context, address, part string, most int64) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stall := time.AfterFunc(f.stall, func() { cancel(errStalled) })
	defer stall.Stop()
	offset, validator := resumePoint(part, address)
	response, err := f.request(ctx, address, offset, validator)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	offset, complete, err := startBody(response, address, part, offset)
	if err != nil || complete {
		return err
	}

	total := int64(-1)
	if response.ContentLength >= 0 {
		total = offset + response.ContentLength
	}
	tooLarge := mismatch("%s is larger than %s", address, humanize.Bytes(uint64(most)))
	if total > most {
		return errors.Join(tooLarge, discardPart(part))
	}
	out, err := os.OpenFile(part, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return fmt.Errorf("storing a download: %w", err)
	}
	done := offset
	windowEnd := done + f.least // bytes to reach before the window ends
	window := time.AfterFunc(f.window, func() { cancel(errSlow) })
	defer window.Stop()
	received := readerFunc(func(p []byte) (int, error) {
		n, err := response.Body.Read(p)
		if n > 0 {
			stall.Reset(f.stall)
			if done += int64(n); done >= windowEnd {
				windowEnd = done + f.least
				window.Reset(f.window)
			}
			f.progress(address, done, total)
		}
		if done > most {
			return n, tooLarge
		}
		return n, err
	})
	_, err = io.Copy(out, received)
	if closeErr := out.Close(); err == nil {
		err = closeErr
	}
	switch {
	case err == nil:
		return nil
	case onDisk(err):
		return fmt.Errorf("storing a download: %w", err)
	case errors.Is(err, tooLarge):
		return errors.Join(err, discardPart(part))
	}
	return transientError{fmt.Errorf("%s broke off after %d bytes: %w", address, done, whySlow(ctx, err))}
}

// request asks for a file, from the byte at offset if that is positive and the file still has the
// validator.
func (f *Fetcher) request(ctx context.Context, address string, offset int64, validator string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("%s is not an address: %w", address, err)
	}
	request.Header.Set("User-Agent", "mquine")
	// The offsets of a range count encoded bytes, so ask for no encoding.
	request.Header.Set("Accept-Encoding", "identity")
	if offset > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
		request.Header.Set("If-Range", validator)
	}
	response, err := f.client.Do(request)
	if err != nil {
		err = fmt.Errorf("fetching %s: %w", address, whySlow(ctx, withoutAddress(err)))
		if !hopeless(err) {
			err = transientError{err}
		}
		return nil, err
	}
	return response, nil
}

// whySlow returns errStalled or errSlow if one of them cancelled the request, and otherwise the
// transport's error err.
func whySlow(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause == errStalled || cause == errSlow {
		return cause
	}
	return err
}

// startBody prepares the file at the path part for the body of the response to a request from the
// byte at asked. It returns the offset of the body in the file, and reports whether the file is
// complete without it.
func startBody(response *http.Response, address, part string, asked int64) (offset int64, complete bool, err error) {
	contentRange := response.Header.Get("Content-Range")
	switch code := response.StatusCode; {
	case code == http.StatusPartialContent && asked > 0 && rangeStart(contentRange) == asked:
		return asked, false, nil
	case code == http.StatusOK: // the whole file: a first request, a server without ranges, or a new version
		return 0, false, startPart(part, resumption{address, validatorOf(response)})
	case code == http.StatusRequestedRangeNotSatisfiable && contentRange == fmt.Sprintf("bytes */%d", asked):
		return asked, true, nil // an earlier process ended before it used the file
	case code == http.StatusPartialContent || code == http.StatusRequestedRangeNotSatisfiable:
		if err := discardPart(part); err != nil {
			return 0, false, err
		}
		return 0, false, transientError{fmt.Errorf("%s: the server cannot resume at byte %d", address, asked)}
	case code == http.StatusRequestTimeout || code == http.StatusTooManyRequests || code >= 500:
		return 0, false, transientError{&statusError{address, code}}
	default:
		return 0, false, &statusError{address, code}
	}
}

// resumePoint returns the size of the partial download of address at the path part, and the
// validator for a range request. It returns 0 if the download cannot be resumed.
func resumePoint(part, address string) (int64, string) {
	info, err := os.Stat(part)
	if err != nil {
		return 0, ""
	}
	data, err := os.ReadFile(resumptionFile(part))
	var from resumption
	if err != nil || json.Unmarshal(data, &from) != nil || from.URL != address || from.Validator == "" {
		return 0, ""
	}
	return info.Size(), from.Validator
}

// startPart replaces the file at the path part with an empty one and writes its resumption file.
func startPart(part string, from resumption) error {
	if err := discardPart(part); err != nil {
		return err
	}
	data, err := json.Marshal(from)
	if err != nil {
		return err
	}
	if err := atomicfile.WriteBytes(resumptionFile(part), data); err != nil {
		return fmt.Errorf("starting a download: %w", err)
	}
	if err := os.WriteFile(part, nil, 0o644); err != nil {
		return fmt.Errorf("starting a download: %w", err)
	}
	return nil
}

func discardPart(part string) error {
	// Remove the resumption file first, because a part without this file is never resumed.
	for _, path := range []string{resumptionFile(part), part} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing a partial download: %w", err)
		}
	}
	return nil
}

// validatorOf returns a validator for If-Range: the entity tag unless it is weak, otherwise the
// date. If the server gives neither, validatorOf returns "", and an interrupted download from this
// server cannot be resumed.
func validatorOf(response *http.Response) string {
	if tag := response.Header.Get("ETag"); tag != "" && !strings.HasPrefix(tag, "W/") {
		return tag
	}
	return response.Header.Get("Last-Modified")
}

// rangeStart returns the position of the first byte of a Content-Range, or −1 if the header gives
// none.
func rangeStart(contentRange string) int64 {
	var first int64
	if _, err := fmt.Sscanf(contentRange, "bytes %d-", &first); err != nil {
		return -1
	}
	return first
}

// withoutAddress removes the address from a request's error, because the caller's message already
// names it.
func withoutAddress(err error) error {
	if e := (*url.Error)(nil); errors.As(err, &e) {
		return e.Err
	}
	return err
}

// hopeless reports whether a request that failed without a response would fail at every attempt.
func hopeless(err error) bool {
	if dns := (*net.DNSError)(nil); errors.As(err, &dns) {
		return dns.IsNotFound
	}
	return errors.As(err, new(*tls.CertificateVerificationError)) || errors.As(err, new(redirectError))
}

// onDisk reports whether an error is about a local file, not about the network.
func onDisk(err error) bool {
	return errors.As(err, new(*fs.PathError)) || errors.As(err, new(*os.LinkError))
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

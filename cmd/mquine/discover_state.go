package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mquine/mquine/internal/atomicfile"
	"github.com/mquine/mquine/internal/filelock"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/rank"
)

// searchSchema names the format of the files in the folder of --state.
const searchSchema = "mquine.discover-state/3"

// formerSchemas names the formats that lack checksums: the first of all files, the second of labels.
// Because damage or a change would go unnoticed, states in these formats are refused.
var formerSchemas = []string{"mquine.discover-state/1", "mquine.discover-state/2"}

// saveEvery is the minimum time between two saves of a search. Tests shorten it.
var saveEvery = 30 * time.Second

// searchFolder keeps an unfinished search in the folder of --state: finished lines in files
// part-N.tsv and everything else in state.json.
type searchFolder struct {
	dir   string
	lock  *os.File
	state searchState
	lines bytes.Buffer // lines since the last save
	saved time.Time
	// pending is the state after the last batch if it is not saved yet, and the first complete bytes
	// of lines belong to it.
	pending  *rank.DiscoveryState
	complete int
}

// searchState is the contents of state.json.
type searchState struct {
	Schema string `json:"schema"`
	// Search describes the search: its model, data and options.
	Search json.RawMessage `json:"search"`
	// Parts describes the files part-N.tsv. Queries and Kept are as in rank.DiscoveryState.
	Parts   []savedPart  `json:"parts"`
	Queries int          `json:"queries"`
	Kept    []keptTriple `json:"kept"`
	// Result is the path of the file of --out once the file is complete. The folder is then being
	// removed.
	Result string `json:"result,omitempty"`
	// SHA256 is the checksum of the other fields.
	SHA256 string `json:"sha256"`
}

// savedPart is the size and the checksum of a file part-N.tsv.
type savedPart struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// digest returns the checksum of the fields other than SHA256.
func (s searchState) digest() (string, error) {
	s.SHA256, s.Search = "", compact(s.Search)
	contents, err := json.Marshal(s)
	return hexDigest(contents), err
}

// hexDigest returns the SHA-256 of data in hexadecimal digits.
func hexDigest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// keptTriple is a rank.Discovered with the bits of its numbers, because JSON has no infinities.
type keptTriple struct {
	Head     int32  `json:"head"`
	Relation int32  `json:"relation"`
	Tail     int32  `json:"tail"`
	Rank     int    `json:"rank"`
	Score    uint64 `json:"score_bits"`
	Z        uint64 `json:"z_bits"`
}

// openSearch opens the folder of a search, or creates it.
func openSearch(dir string, search any) (_ *searchFolder, err error) {
	description, err := json.Marshal(search)
	if err != nil {
		return nil, err
	}
	f := &searchFolder{dir: dir, saved: time.Now(), state: searchState{Schema: searchSchema, Search: description}}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("cannot create %s: %w", dir, text.Cause(err))
	}
	if f.lock, err = filelock.Open(dir, os.O_RDONLY); err == nil {
		err = filelock.Lock(f.lock)
	}
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	switch {
	case errors.Is(err, filelock.ErrHeld):
		return nil, fmt.Errorf("another search uses %s: name another folder", dir)
	case err != nil && !errors.Is(err, filelock.ErrUnsupported):
		return nil, fmt.Errorf("cannot use %s: %w", dir, text.Cause(err))
	}
	contents, err := os.ReadFile(f.path("state.json"))
	if errors.Is(err, fs.ErrNotExist) {
		atomicfile.Sweep(dir) // a process may have been killed before it wrote state.json
		entries, err := os.ReadDir(dir)
		switch {
		case err != nil:
			return nil, fmt.Errorf("cannot read %s: %w", dir, text.Cause(err))
		case len(entries) > 0:
			return nil, fmt.Errorf("%s holds other files: name a new folder", dir)
		}
		return f, f.write()
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", f.path("state.json"), text.Cause(err))
	}
	var state searchState
	err = json.Unmarshal(contents, &state) // may fail for a former schema, but still sets Schema
	switch {
	case slices.Contains(formerSchemas, state.Schema):
		return nil, fmt.Errorf("%s is from an earlier version of mquine and lacks checksums: "+
			"remove %s and repeat the command", f.path("state.json"), dir)
	case err != nil || state.Schema != searchSchema:
		return nil, fmt.Errorf("%s is not the state of a search (%s): name a new folder",
			f.path("state.json"), searchSchema)
	}
	switch digest, err := state.digest(); {
	case err != nil:
		return nil, err
	case digest != state.SHA256:
		return nil, f.damaged("state.json")
	}
	same := bytes.Equal(compact(state.Search), description)
	if !same && state.Queries > 0 && state.Result == "" {
		return nil, fmt.Errorf("%s holds another search%s: use its checkpoint, data set and options, which %s "+
			"lists, or name a new folder", dir, differences(state.Search, description), f.path("state.json"))
	}
	f.state = state
	f.state.Search = description
	if !same { // the other search has nothing to lose
		return f, f.restart()
	}
	return f, nil
}

// restart forgets all finished queries, so that the search begins again.
func (f *searchFolder) restart() error {
	if err := f.removeParts(); err != nil {
		return err
	}
	f.state = searchState{Schema: searchSchema, Search: f.state.Search}
	return f.write()
}

// differences lists the keys with different values in two descriptions of a search, as in
// ", with other values of k and per".
func differences(a, b json.RawMessage) string {
	var one, other map[string]json.RawMessage
	if json.Unmarshal(compact(a), &one) != nil || json.Unmarshal(compact(b), &other) != nil {
		return ""
	}
	var keys []string
	for key := range one {
		if !bytes.Equal(one[key], other[key]) {
			keys = append(keys, key)
		}
	}
	for key := range other {
		if _, ok := one[key]; !ok {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	switch n := len(keys); n {
	case 0:
		return ""
	case 1:
		return ", with another value of " + keys[0]
	default:
		return ", with other values of " + strings.Join(keys[:n-1], ", ") + " and " + keys[n-1]
	}
}

// compact removes the indentation of JSON.
func compact(document json.RawMessage) []byte {
	var b bytes.Buffer
	if json.Compact(&b, document) != nil {
		return nil
	}
	return b.Bytes()
}

// damaged returns the error for a file of the folder that is not as this program wrote it.
func (f *searchFolder) damaged(name string) error {
	return fmt.Errorf("%s is damaged: remove %s and repeat the command", f.path(name), f.dir)
}

func (f *searchFolder) path(name string) string { return filepath.Join(f.dir, name) }

func partName(i int) string { return fmt.Sprintf("part-%06d.tsv", i) }

func (f *searchFolder) part(i int) string { return f.path(partName(i)) }

// resume returns the state from which to resume, or nil if the search is new.
func (f *searchFolder) resume() *rank.DiscoveryState {
	if f.state.Queries == 0 {
		return nil
	}
	s := &rank.DiscoveryState{Queries: f.state.Queries}
	for _, t := range f.state.Kept {
		s.Kept = append(s.Kept, rank.Discovered{
			Triple: kg.Triple{Head: t.Head, Relation: t.Relation, Tail: t.Tail}, Rank: t.Rank,
			Score: math.Float64frombits(t.Score), Z: math.Float64frombits(t.Z),
		})
	}
	return s
}

// add adds a line.
func (f *searchFolder) add(row []string) { f.lines.WriteString(strings.Join(row, "\t") + "\n") }

// save receives the state after a batch. It saves the state, unless less than saveEvery has passed
// since the last time.
func (f *searchFolder) save(s rank.DiscoveryState) error {
	f.pending, f.complete = &s, f.lines.Len()
	if time.Since(f.saved) < saveEvery {
		return nil
	}
	return f.savePending()
}

// savePending saves the state after the last batch, if it is not saved yet.
func (f *searchFolder) savePending() error {
	s := f.pending
	if s == nil {
		return nil
	}
	if f.complete > 0 {
		lines := f.lines.Next(f.complete)
		if err := atomicfile.WriteBytes(f.part(len(f.state.Parts)), lines); err != nil {
			return err
		}
		f.state.Parts = append(f.state.Parts, savedPart{int64(len(lines)), hexDigest(lines)})
	}
	f.pending, f.complete = nil, 0
	f.state.Queries, f.state.Kept = s.Queries, make([]keptTriple, len(s.Kept))
	for i, t := range s.Kept {
		f.state.Kept[i] = keptTriple{
			t.Triple.Head, t.Triple.Relation, t.Triple.Tail, t.Rank, math.Float64bits(t.Score), math.Float64bits(t.Z),
		}
	}
	f.saved = time.Now()
	return f.write()
}

// write writes state.json.
func (f *searchFolder) write() (err error) {
	if f.state.SHA256, err = f.state.digest(); err != nil {
		return err
	}
	contents, err := json.MarshalIndent(f.state, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(f.path("state.json"), append(contents, '\n'))
}

// savedLines returns the number of lines in all parts. A damaged part is an error, so that a search
// ends at once, and not when it writes its result.
func (f *searchFolder) savedLines() (n int, err error) {
	var lines lineCounter
	err = f.copyLines(&lines)
	return int(lines), err
}

// lineCounter counts the lines that are written to it.
type lineCounter int

func (n *lineCounter) Write(p []byte) (int, error) {
	*n += lineCounter(bytes.Count(p, []byte{'\n'}))
	return len(p), nil
}

// copyLines writes the lines of all parts, and those since the last save, to w. A part that has
// changed since it was saved is an error.
func (f *searchFolder) copyLines(w io.Writer) error {
	for i, saved := range f.state.Parts {
		part, err := os.Open(f.part(i))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%s is missing: remove %s and repeat the command", f.part(i), f.dir)
		case err != nil:
			return fmt.Errorf("cannot read %s: %w", f.part(i), text.Cause(err))
		}
		sum := sha256.New()
		n, err := io.Copy(io.MultiWriter(w, sum), part)
		part.Close()
		if err != nil {
			return err
		}
		if n != saved.Bytes || hex.EncodeToString(sum.Sum(nil)) != saved.SHA256 {
			return f.damaged(partName(i))
		}
	}
	_, err := w.Write(f.lines.Bytes())
	return err
}

// isFinished reports whether an earlier process completed the file of --out at path, but not the
// removal of the folder.
func (f *searchFolder) isFinished(path string) bool {
	_, inPlace, err := atomicfile.Target(path)
	return err == nil && !inPlace && f.state.Result == place(path) && exists(f.state.Result)
}

// finish removes the folder of a search whose result, the file at path, is complete.
func (f *searchFolder) finish(path string) error {
	f.state.Result = place(path)
	_ = f.write() // matters only if the process is killed while it removes the parts
	return f.remove()
}

// remove removes the files of a finished search, and the folder if nothing else is in it.
func (f *searchFolder) remove() error {
	if err := f.removeParts(); err != nil {
		return err
	}
	if err := os.Remove(f.path("state.json")); err != nil {
		return fmt.Errorf("cannot remove %s: %w", f.path("state.json"), text.Cause(err))
	}
	f.close()
	_ = os.Remove(f.dir) // fails if it holds other files
	return nil
}

func (f *searchFolder) removeParts() error {
	for i := range len(f.state.Parts) + 1 { // a killed process may have left a part that the state does not count
		if err := os.Remove(f.part(i)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot remove %s: %w", f.part(i), text.Cause(err))
		}
	}
	return nil
}

func (f *searchFolder) close() {
	if f.lock != nil {
		f.lock.Close()
	}
}

// writeResumable searches for the triples, saves the state of the search in the folder of --state,
// and writes the triples to the file of --out.
func (d *discovery) writeResumable(ctx context.Context, f *found) (err error) {
	var identified metrics.Provenance
	if err := f.subject.describe(ctx, &identified, true); err != nil {
		return err
	}
	data := identified.Data
	search := map[string]any{
		"checkpoint_sha256": identified.Checkpoint.Parameters(), "vocabulary_sha256": f.subject.vocabularyDigest(),
		"data_sha256": data.SHA256, "splits": []int{data.Train, data.Valid, data.Test},
		"side": f.Side, "k": f.K, "per": f.Per, "order": f.Order, "relations": f.Relations,
		"restrictions": f.Restrictions, "calibration": f.calibration,
	}
	if f.labels != nil { // the saved lines contain them
		labels, err := json.Marshal(f.labels) // sorted by identifier
		if err != nil {
			return err
		}
		search["labels_sha256"] = hexDigest(labels)
	}
	folder, err := openSearch(d.stateDir, search)
	if err != nil {
		return err
	}
	defer folder.close()
	if folder.isFinished(d.out) {
		printNote(f.log, "an earlier command has found the triples and written %s: removing %s", d.out, d.stateDir)
		return folder.remove()
	}
	if folder.state.Result != "" { // the result is elsewhere, or was removed
		if err := folder.restart(); err != nil {
			return err
		}
	}
	f.Resume, f.Save = folder.resume(), folder.save
	if f.Resume != nil {
		if f.count, err = folder.savedLines(); err != nil {
			return err
		}
		printNote(f.log, "resuming the search in %s after %s", d.stateDir, text.Plural(f.Resume.Queries, "query"))
	}
	for t := range f.search(ctx) {
		folder.add(f.fields(t))
	}
	if f.err != nil {
		err := f.err
		if errors.Is(err, context.Canceled) { // after another error, the last batch may be wrong
			err = cmp.Or(folder.savePending(), err)
		}
		if folder.state.Queries == 0 {
			return err // a repeated command starts from the beginning
		}
		return resumableError{err, "repeat the command"}
	}
	if err := d.writeLines(ctx, f, folder.copyLines); err != nil {
		if problem := folder.savePending(); problem != nil {
			return errors.Join(err, problem)
		}
		err = fmt.Errorf("%w; the search is saved in %s: repeat the command", err, d.stateDir)
		return resumableError{err, "repeat the command"}
	}
	return folder.finish(d.out)
}

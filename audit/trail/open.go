package trail

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"gatehouse.example/audit"
)

// Open opens a file for writing, or makes it, and writes a line about the chain. A file that is
// not an audit trail is refused. The error wraps [ErrInUse] if another process writes the file.
func Open(ctx context.Context, cfg Config) (*Trail, error) {
	cfg.Every, cfg.Logger = cmp.Or(cfg.Every, 5*time.Second), cmp.Or(cfg.Logger, slog.Default())
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	t := &Trail{cfg: cfg, out: cfg.Output, writer: newChain(), began: cfg.Now()}
	t.host, _ = os.Hostname() // without a name it stays empty
	if cfg.Path == "" {
		t.begin(&About{Why: WhyBegan, Chain: newChain()})
		return t, t.failure
	}
	var err error
	if t.cfg.Path, err = filepath.Abs(cfg.Path); err != nil {
		return nil, fmt.Errorf("trail: %w", err)
	}
	if t.place, err = takePlace(t.cfg.Path); err != nil {
		return nil, err
	}
	if err := t.openPlace(ctx); err != nil {
		_ = t.place.file.Close()
		return nil, err
	}
	_ = t.keep(ctx, false) // a failure is logged, and it is tried again
	return t, nil
}

// openPlace goes on with the file of a place that is locked.
func (t *Trail) openPlace(ctx context.Context) (err error) {
	if t.file, err = openFile(t.cfg.Path); err != nil {
		return err
	}
	t.out = t.file
	if info, err := t.file.Stat(); err == nil {
		t.size = info.Size()
	}
	if err = t.resume(ctx); err == nil && t.failure != nil {
		err = fmt.Errorf("trail: %w", t.failure)
	}
	if err != nil {
		_ = t.file.Close()
	}
	return err
}

func newChain() string {
	var id [12]byte
	_, _ = rand.Read(id[:]) // it never fails
	return hex.EncodeToString(id[:])
}

// openFile opens a file to append to it, and locks it.
func openFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("trail: %w", err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("trail: %s is not a regular file", path)
	}
	if err == nil {
		err = lock(f)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// resume continues the chain of the file, or of the head that was kept for its place, or begins a
// new chain.
func (t *Trail) resume(ctx context.Context) error {
	head, err := t.oldHead(ctx)
	if err != nil {
		t.cfg.Logger.Warn("the head of the audit trail cannot be read: whether the end of the file is missing is not known", "error", err)
	}
	t.before = head.Writer
	var after *Head
	if head.Chain != "" {
		after = &head
	}
	end, err := readEnd(t.file)
	switch {
	case err != nil:
		return fmt.Errorf("trail: %s: %w", t.cfg.Path, err)
	case end.chain != "":
		t.restart(end, head)
	case end.torn > 0:
		t.pending = append(t.pending, '\n')
		t.begin(&About{Why: WhyBegan, Chain: newChain(), Torn: end.torn, After: after})
	case head.Closed && t.follow(head):
		t.begin(&About{Why: WhyContinued, Chain: head.Chain})
	default:
		t.begin(&About{Why: WhyBegan, Chain: newChain(), After: after})
	}
	return nil
}

// follow goes on after a head.
func (t *Trail) follow(h Head) bool {
	n, err := hex.Decode(t.mac[:], []byte(h.MAC))
	t.seq = h.Seq
	return err == nil && n == len(t.mac)
}

func (t *Trail) oldHead(ctx context.Context) (Head, error) {
	if t.cfg.Heads == nil {
		return Head{}, nil
	}
	head, err := t.cfg.Heads.AuditHead(ctx, t.host, t.cfg.Path)
	if errors.Is(err, ErrNoHead) {
		err = nil
	}
	return head, err
}

// restart goes on with a file that has lines. Lines that the head knows and the file does not have
// leave a gap in the numbers, which stays for good. A head of another chain is written down: the head
// of this one replaces it.
func (t *Trail) restart(end fileEnd, head Head) {
	t.seq, t.mac = end.last.Seq, end.last.mac
	about := &About{Why: WhyRestarted, Chain: end.chain, Torn: end.torn}
	switch {
	case head.Chain != "" && head.Chain != end.chain:
		t.cfg.Logger.Error("the file of the audit trail has another chain than the one that was written last: the lines of that are missing, or in another file", "file", t.cfg.Path, "chain", end.chain, "known_chain", head.Chain, "known_line", head.Seq)
		about.After = &head
	case head.Seq > t.seq:
		t.cfg.Logger.Error("the end of the audit trail is missing", "file", t.cfg.Path, "last_line", t.seq, "known_line", head.Seq)
		t.follow(head)
	}
	if !t.knows(end.last) {
		t.cfg.Logger.Error("the last line of the audit trail was changed, or is under a key that is not given any more", "file", t.cfg.Path, "line", end.last.Seq)
	}
	if end.unended {
		t.pending = append(t.pending, '\n')
	}
	if end.torn > 0 {
		t.cfg.Logger.Warn("the last line of the audit trail is not whole: a process ended in the middle of it", "file", t.cfg.Path, "after_line", end.last.Seq)
		t.pending = append(t.pending, '\n')
	}
	t.begin(about)
}

// knows reports whether a line is genuine under a key that is known.
func (t *Trail) knows(l Line) bool {
	known := l.genuine(t.cfg.Key)
	for i := range t.cfg.OldKeys {
		known = known || l.genuine(&t.cfg.OldKeys[i])
	}
	return known
}

// begin writes a line about the chain and the file.
func (t *Trail) begin(about *About) {
	t.chain = about.Chain
	about.Format, about.Host, about.File, about.Program = format, t.host, t.cfg.Path, t.cfg.Program
	if about.Keyed = t.cfg.Key != nil; about.Keyed {
		about.KeyName = t.cfg.Key.name
	} else {
		about.Note = unkeyedNote
	}
	t.append(audit.Event{Time: t.cfg.Now(), Kind: audit.Chain, By: audit.ByServer}, about)
	t.flush()
}

// fileEnd is the end of a file. It is zero for one that is empty.
type fileEnd struct {
	chain string
	last  Line
	torn  int // the size of a last line that is not whole
	// unended says that last is whole and lacks its line end alone.
	unended bool
}

var errForeign = errors.New("it has content that is not an audit trail: name another file")

// readEnd reads the first line of a file, which names its chain, and the last whole one.
func readEnd(f *os.File) (fileEnd, error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return fileEnd{}, err
	}
	head := make([]byte, min(info.Size(), maxLine))
	if _, err := f.ReadAt(head, 0); err != nil {
		return fileEnd{}, err
	}
	chain := chainOf(head)
	if chain == "" && !bytes.Contains(head, []byte("\n")) && bytes.HasPrefix(head, []byte(lineStart)) {
		return fileEnd{torn: len(head)}, nil
	}
	if chain == "" {
		return fileEnd{}, errForeign
	}
	tail := make([]byte, min(info.Size(), 2*maxLine))
	if _, err := f.ReadAt(tail, info.Size()-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return fileEnd{}, err
	}
	return lastOf(tail, chain)
}

// chainOf returns the chain that the first bytes of a file name. The line that does is the first
// one, or the second if a process ended in the middle of the first.
func chainOf(head []byte) string {
	lines := bytes.SplitN(head, []byte("\n"), 3)
	for _, line := range lines[:min(len(lines), 2)] {
		if l, err := parse(line); err == nil && l.About != nil {
			return l.About.Chain
		}
	}
	return ""
}

// lastOf returns the end of a file from its last bytes. Lines that cannot be read before the end
// are left to [Verify].
func lastOf(tail []byte, chain string) (fileEnd, error) {
	cut := bytes.LastIndexByte(tail, '\n') + 1
	end := fileEnd{chain: chain, torn: len(tail) - cut}
	if last, err := parse(tail[cut:]); err == nil {
		return fileEnd{chain: chain, last: last, unended: true}, nil
	}
	whole := tail[:cut]
	for len(whole) > 0 {
		whole = whole[:len(whole)-1]
		begin := bytes.LastIndexByte(whole, '\n') + 1
		if last, err := parse(whole[begin:]); err == nil {
			end.last = last
			return end, nil
		}
		whole = whole[:begin]
	}
	return fileEnd{}, errForeign
}

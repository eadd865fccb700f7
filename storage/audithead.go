package storage

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"
)

const kindAuditHead = "audit-head"

// auditHeadIndex lists the heads: host and path, with a NUL between them, which neither has. Heads
// of earlier releases are listed when they are kept next.
var auditHeadIndex = key("audit-heads", "all")

// auditHeadTTL is how long a head is kept after its file was last written.
const auditHeadTTL = 400 * 24 * time.Hour

// AuditHead is the last line of an audit trail that is kept so that a cut-off end of the file
// shows. There is one for each file of each host.
type AuditHead struct {
	// Chain identifies the chain, Seq is the number of the line, MAC its MAC in hexadecimal.
	Chain string    `json:"chain"`
	Seq   uint64    `json:"seq"`
	MAC   string    `json:"mac"`
	At    time.Time `json:"at"`
	// Closed says that the line is the last one of a process that ended regularly.
	Closed bool `json:"closed,omitempty"`
	// Writer identifies the process that kept it. Heads of earlier releases have none.
	Writer string `json:"writer,omitempty"`
}

func auditHeadID(host, file string) string { return string(aliasID("audit head", host, file)) }

// AuditHead returns the head for a file of a host, or [ErrNotFound].
func (s *Store) AuditHead(ctx context.Context, host, file string) (AuditHead, error) {
	var h AuditHead
	_, err := s.read(ctx, kindAuditHead, auditHeadID(host, file), &h)
	return h, err
}

// KeepAuditHead replaces the head for a file of a host. One process at a time writes a file, so the
// last head is the one that counts. A failover may lose it, until the next one is kept. The head is
// listed in the same round trip.
func (s *Store) KeepAuditHead(ctx context.Context, host, file string, h AuditHead) error {
	_, err := s.write(ctx, record{
		kind: kindAuditHead, id: auditHeadID(host, file), value: h, expires: s.now().Add(auditHeadTTL), forgettable: true,
		listed: []Listing{{auditHeadIndex, host + "\x00" + file}},
	}, Always)
	return err
}

// AuditHeadAt is a head with its place.
type AuditHeadAt struct {
	Host, File string
	AuditHead
}

// AuditHeads lists all heads by host and path, and removes the entries of those that are gone. A
// record that cannot be read is an error in its place; the iteration may go on after it.
func (s *Store) AuditHeads(ctx context.Context) iter.Seq2[AuditHeadAt, error] {
	return func(yield func(AuditHeadAt, error) bool) {
		for entry, err := range s.indexed(ctx, auditHeadIndex) {
			var h AuditHeadAt
			if err == nil {
				h.Host, h.File, _ = strings.Cut(entry, "\x00")
				h.AuditHead, err = s.AuditHead(ctx, h.Host, h.File)
			}
			if errors.Is(err, ErrNotFound) {
				if err = s.forgetAuditHead(ctx, h, entry); err == nil {
					continue
				}
			}
			if !yield(h, err) || ends(err) {
				return
			}
		}
	}
}

// forgetAuditHead removes the entry of a head that is gone. One that is written at this moment has
// an entry again with its next write.
func (s *Store) forgetAuditHead(ctx context.Context, h AuditHeadAt, entry string) error {
	if there, err := s.exists(ctx, key(kindAuditHead, auditHeadID(h.Host, h.File))); there || err != nil {
		return err
	}
	return s.indexRemove(ctx, auditHeadIndex, entry)
}

package storage

import (
	"context"
	"time"
)

const kindAuditHead = "audit-head"

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
// last head is the one that counts. A failover may lose it, until the next one is kept.
func (s *Store) KeepAuditHead(ctx context.Context, host, file string, h AuditHead) error {
	_, err := s.write(ctx, record{
		kind: kindAuditHead, id: auditHeadID(host, file), value: h, expires: s.now().Add(auditHeadTTL), forgettable: true,
	}, Always)
	return err
}

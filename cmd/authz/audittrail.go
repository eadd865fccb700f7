package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"time"

	"gatehouse.example/audit"
	"gatehouse.example/audit/trail"
	"gatehouse.example/authz"
	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/storage"
)

// auditSettings are the settings of the audit trail in every verb that serves.
type auditSettings struct {
	Audit         string `placeholder:"FILE" help:"Write an audit trail: JSON lines that show when one was changed; - for standard output (default: none)."`
	AuditRequired bool   `help:"Refuse requests with 503 while the audit trail cannot be written (default: go on, and write the lines later)."`
}

// auditMistakes returns an error for each of these settings that is wrong.
func (s auditSettings) auditMistakes() error {
	if s.AuditRequired && s.Audit == "" {
		return errors.New("audit-required has no effect without audit: name the file")
	}
	return nil
}

// toStandardOutput reports whether the trail takes the standard output for itself.
func (s auditSettings) toStandardOutput() bool { return s.Audit == "-" }

// announcements returns where a server says that it is ready: not between the lines of the trail.
func (p *program) announcements(s auditSettings) io.Writer {
	if s.toStandardOutput() {
		return p.stderr
	}
	return p.stdout
}

// auditTrail is the audit trail of a server. The zero value records nothing.
type auditTrail struct {
	*trail.Trail
	required bool
}

// auditClosing bounds the time for the last head.
const auditClosing = 5 * time.Second

// openTrail opens the audit trail of a server. Keys are under what it is chained, the first for
// what is written; without any it is a chain of hashes.
func (s auditSettings) openTrail(ctx context.Context, st *site, stdout io.Writer, keys []trail.Key, heads trail.Heads) (auditTrail, error) {
	if s.Audit == "" {
		return auditTrail{}, nil
	}
	config := trail.Config{Path: s.Audit, Heads: heads, Program: "authz " + thisRelease().Version, Logger: st.log}
	if s.toStandardOutput() {
		config.Path, config.Output = "", stdout
	}
	if len(keys) > 0 {
		config.Key, config.OldKeys = &keys[0], keys[1:]
	} else {
		st.log.Warn("the audit trail has no key: it shows accidents, and nothing that an attacker did")
	}
	opened, err := trail.Open(ctx, config)
	if errors.Is(err, trail.ErrInUse) {
		return auditTrail{}, fmt.Errorf("audit %s: another process writes this file: each process needs a file of its own", s.Audit)
	}
	if err != nil {
		return auditTrail{}, fmt.Errorf("audit: %w", err)
	}
	opened.Record(audit.Event{Kind: audit.Started, By: audit.ByServer})
	st.countTrail(opened)
	return auditTrail{opened, s.AuditRequired}, nil
}

// record returns the function that records events, nil without a trail.
func (t auditTrail) record() func(audit.Event) {
	if t.Trail == nil {
		return nil
	}
	return t.Record
}

// run does what is due until ctx ends.
func (t auditTrail) run(ctx context.Context) error {
	if t.Trail == nil {
		return nil
	}
	return t.Run(ctx)
}

// end writes the last line. Nothing may be recorded after it.
func (t auditTrail) end(st *site) {
	if t.Trail == nil {
		return
	}
	t.Record(audit.Event{Kind: audit.Stopped, By: audit.ByServer})
	ctx, cancel := context.WithTimeout(context.Background(), auditClosing)
	defer cancel()
	if err := t.Close(ctx); err != nil {
		st.log.Error("the audit trail could not be closed: its last lines may be missing", "error", err)
	}
}

// told returns a reload of settings that goes on in a new file if the old one was renamed, and that
// records which settings changed, or that they were refused. Mistakes are in the log: they may quote.
func (t auditTrail) told(reload func(context.Context) reloaded) func(context.Context) reloaded {
	if t.Trail == nil {
		return reload
	}
	return func(ctx context.Context) reloaded {
		t.Reopen()
		result := reload(ctx)
		var keys []string
		for _, c := range result.Changed {
			keys = append(keys, c.Key)
		}
		e := audit.Event{Kind: audit.SettingsChanged, By: audit.ByOperator, How: "reload", Target: audit.Target(strings.Join(keys, ","))}
		if !result.Done {
			e.Kind = audit.SettingsRefused
		}
		if !result.Done || len(keys) > 0 {
			t.Record(e)
		}
		return result
	}
}

// errUnrecorded means that a required trail cannot be written.
var errUnrecorded = errors.New("the audit trail cannot be written")

// failing returns an error while a trail that is required cannot be written.
func (t auditTrail) failing() error {
	if t.Trail == nil || !t.required {
		return nil
	}
	if err := t.Failing(); err != nil {
		return fmt.Errorf("%w: %w", errUnrecorded, err)
	}
	return nil
}

// ready returns a readiness check that also wants a required trail to be written.
func (t auditTrail) ready(next func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := t.failing(); err != nil {
			return err
		}
		return next(ctx)
	}
}

// unrecorded are the ends of paths of the authorization server that no trail records.
var unrecorded = []string{"/jwks.json", "/healthz", "/introspect"}

// over returns a handler that refuses requests while a required trail cannot be written, before
// anything happens that would not be recorded. Harmless tells the paths that no trail records.
func (t auditTrail) over(next http.Handler, harmless func(path string) bool) http.Handler {
	if t.Trail == nil || !t.required {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if t.failing() == nil || harmless(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("Cache-Control", "no-store")
		h.Set("Retry-After", "5")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"error":"temporarily_unavailable","error_description":"the server cannot record what it does; try again later"}`)
	})
}

func harmlessAtServer(path string) bool {
	for _, end := range unrecorded {
		if strings.HasSuffix(path, end) {
			return true
		}
	}
	return strings.Contains(path, "/.well-known/")
}

func harmlessAtGateway(path string) bool {
	return strings.HasPrefix(path, "/.well-known/oauth-protected-resource")
}

// auditKeys returns the keys of audit trails under the master keys of an issuer.
func auditKeys(masters settings.MasterKeys, issuer string) ([]trail.Key, error) {
	keys := make([]trail.Key, 0, len(masters))
	for _, master := range masters {
		key, err := trail.NewKey(master, issuer)
		if err != nil {
			return nil, fmt.Errorf("audit: %w", err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// watched returns the configuration of the server over a store, with all that is told what it does.
func (s *serveSettings) watched(ctx context.Context, p *program, st *site, store *storage.Store, l *loaded) (authz.Config, auditTrail, error) {
	observe := st.countServer(s)
	config, err := s.server()
	if err = errors.Join(err, s.certify(ctx, st, store)); err != nil {
		return config, auditTrail{}, err
	}
	recorded, err := s.trail(ctx, p, st, store, l)
	config.Store, config.Logger, config.Observe, config.Trace, config.Audit = store, st.log, observe, st.traces.Server(), recorded.record()
	return config, recorded, err
}

// trail opens the audit trail of the authorization server. A master key that --dev made up is gone
// at the end, and could check nothing then.
func (s *serveSettings) trail(ctx context.Context, p *program, st *site, store *storage.Store, l *loaded) (auditTrail, error) {
	masters := s.MasterKeys
	if l.origins["master-keys"] == madeUp {
		masters = nil
	}
	keys, err := auditKeys(masters, s.Issuer)
	if err != nil {
		return auditTrail{}, err
	}
	return s.openTrail(ctx, st, p.stdout, keys, auditHeads{store})
}

// auditHeads keeps heads in a store.
type auditHeads struct{ store *storage.Store }

// AuditHead implements [trail.Heads].
func (h auditHeads) AuditHead(ctx context.Context, host, file string) (trail.Head, error) {
	head, err := h.store.AuditHead(ctx, host, file)
	if errors.Is(err, storage.ErrNotFound) {
		return trail.Head{}, trail.ErrNoHead
	}
	return trail.Head(head), err
}

// KeepAuditHead implements [trail.Heads].
func (h auditHeads) KeepAuditHead(ctx context.Context, host, file string, head trail.Head) error {
	return h.store.KeepAuditHead(ctx, host, file, storage.AuditHead(head))
}

// AuditHeads implements [trail.Heads].
func (h auditHeads) AuditHeads(ctx context.Context) iter.Seq2[trail.PlacedHead, error] {
	return func(yield func(trail.PlacedHead, error) bool) {
		for one, err := range h.store.AuditHeads(ctx) {
			if !yield(trail.PlacedHead{Host: one.Host, Path: one.File, Head: trail.Head(one.AuditHead)}, err) {
				return
			}
		}
	}
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/alecthomas/kong"

	"gatehouse.example/internal/quietlog"
	"gatehouse.example/registry/mirror"
	"gatehouse.example/storage/catalogue"
)

// registrySync runs one round of the mirror.
type registrySync struct {
	registrySettings

	Full          bool `help:"Read all records of the upstream, not only updated ones."`
	AcceptShrink  bool `help:"Read all records, and remove every record that the upstream does not list any more, however many they are."`
	AcceptChanged bool `help:"Read all records, and replace records whose published version has changed."`
	JSON          bool `name:"json" help:"Print the result as JSON."`
}

// Run runs the round and prints its result. A catalogue that waits for a decision of the
// operator is not up to date, so it is an error.
func (v *registrySync) Run(ctx context.Context, p *program, k *kong.Context) error {
	if _, err := p.loadRegistry(k, &v.registrySettings); err != nil {
		return err
	}
	switch {
	case v.Store == "":
		return usageError{errors.New("store is not set: name the store of the registry with --store or --config")}
	case v.Store.Embedded():
		return usageError{errors.New("store embedded: is in the memory of the running registry, and no other process can reach it: run the registry with --store file:PATH or redis://…")}
	case v.Upstream == "" && !v.keepsOwn:
		return usageError{errors.New("upstream is not set: name the registry to mirror with --upstream, or servers of your own with --servers-file")}
	}
	quiet := quietlog.New(atLeast{slog.LevelWarn, p.logHandler(v.LogFormat)})
	defer quiet.Flush()
	log := slog.New(quiet)
	store, err := v.open(ctx, storeOptions{})
	if err != nil {
		return err
	}
	defer store.Close()
	line := p.statusLine()
	pace := pace{began: time.Now()}
	m, err := v.mirror(store, log, 0, 0, func(r mirror.Report) { line.show(pace.at(time.Now(), r)) })
	if err != nil {
		return err
	}
	order := mirror.SyncOptions{Full: v.Full, AcceptShrink: v.AcceptShrink, AcceptChanged: v.AcceptChanged}
	report, err := v.sync(ctx, m, order, line)
	line.clear()
	if err != nil {
		return err
	}
	return v.print(ctx, p, m, report)
}

// leaseWait is the time to wait for another process that fills the catalogue. It is longer than
// the lease of a process that has ended.
const leaseWait = 8 * time.Second

// sync runs the round as soon as no other process fills the catalogue.
func (v *registrySync) sync(ctx context.Context, m *mirror.Mirror, order mirror.SyncOptions, line *statusLine) (mirror.Report, error) {
	for begun := time.Now(); ; {
		report, err := m.SyncWith(ctx, order)
		var elsewhere *catalogue.LeasedError
		if !errors.As(err, &elsewhere) {
			return report, err
		}
		if time.Since(begun) > leaseWait {
			return report, fmt.Errorf("%s is filling the catalogue: wait for its round to end", wordOf(elsewhere.Owner))
		}
		line.show("waiting for " + wordOf(elsewhere.Owner) + ", which is filling the catalogue or ended without releasing it")
		select {
		case <-ctx.Done():
			return report, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// pace computes the speed of a round. Records that were read before an interruption do not
// count.
type pace struct {
	began time.Time
	first int
	known bool
}

// at returns a sentence about the progress of the round.
func (c *pace) at(now time.Time, r mirror.Report) string {
	if !c.known {
		c.known, c.first = true, r.Items
		if !r.Resumed {
			c.first = 0
		}
	}
	text := fmt.Sprintf("%s, %s", counted(r.Pages, "page"), counted(r.Items, "record"))
	if seconds := now.Sub(c.began).Seconds(); seconds > 0 {
		text += fmt.Sprintf(", %.0f a second", float64(r.Items-c.first)/seconds)
	}
	return text
}

// synced is the result as --json prints it.
type synced struct {
	mirror.Report
	Shrink *mirror.Shrink `json:"shrink,omitempty"`
}

// print prints the result.
func (v *registrySync) print(ctx context.Context, p *program, m *mirror.Mirror, report mirror.Report) error {
	status, err := m.Status(ctx)
	if err != nil {
		return err
	}
	text := []byte(sentences(report, status))
	if v.JSON {
		if text, err = json.MarshalIndent(synced{report, status.Shrink}, "", "  "); err != nil {
			return err
		}
		text = append(inert(text), '\n')
	}
	_, err = p.stdout.Write(text)
	if err == nil && status.Shrink != nil {
		err = errors.New(status.Shrink.String())
	}
	return err
}

// sentences returns the result for people.
func sentences(r mirror.Report, s mirror.Status) string {
	took := r.Ended.Sub(r.Began).Round(100 * time.Millisecond)
	text := ""
	line := func(applies bool, format string, args ...any) {
		if applies {
			text += fmt.Sprintf(format, args...) + "\n"
		}
	}
	switch {
	case r.Mode == mirror.ModeOwn:
		line(true, "servers of your own: %d", s.Own)
	case r.NotModified:
		line(true, "nothing has changed at %s", s.Upstream)
	default:
		line(true, "read %s on %s from %s in %s", counted(r.Items, "record"), counted(r.Pages, "page"), s.Upstream, took)
	}
	line(r.Resumed && !r.Restarted, "this continued an earlier run that was interrupted")
	line(true, "%d added, %d updated, %d deleted", r.Added, r.Updated, r.Deleted)
	line(r.Vanished > 0, "%d of the deleted were not listed any more", r.Vanished)
	line(r.Mode == mirror.ModeFull && !r.Judged, "records that are not listed any more were not removed, because the round was interrupted: the next full round removes them")
	line(r.Invalid > 0, "%d could not be used:", r.Invalid)
	for _, example := range r.Examples {
		line(true, "  %s", wordOf(example))
	}
	line(r.Changed > 0, "%d differ from the version that was published first, which is not allowed; the first ones stay (--accept-changed takes the others)", r.Changed)
	line(r.Conflicts > 0, "%d have the names of servers of your own; yours stay", r.Conflicts)
	line(s.UnknownStatus > 0, "%d are hidden, because the upstream gives them an unknown status", s.UnknownStatus)
	line(r.Stripped > 0, "%d had data under your own key of _meta, which was removed", r.Stripped)
	line(true, "the catalogue has %s of %s", counted(s.Rows, "version"), counted(s.Servers, "server"))
	return text
}

// atLeast is a handler that drops log lines below a level.
type atLeast struct {
	level slog.Level
	slog.Handler
}

// Enabled implements [slog.Handler].
func (h atLeast) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

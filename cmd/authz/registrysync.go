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

// registrySync does one round.
type registrySync struct {
	registrySettings

	Full          bool `help:"Ask for everything, not only for what was updated."`
	AcceptShrink  bool `help:"Ask for everything, and remove what the upstream does not list any more, however much it is."`
	AcceptChanged bool `help:"Ask for everything, and take over records that are not what they were."`
	JSON          bool `name:"json" help:"Print what was done as JSON."`
}

// Run does the round and says what became of it. A catalogue that waits for somebody to
// decide is not up to date, so that is a failure.
func (v *registrySync) Run(ctx context.Context, p *program, k *kong.Context) error {
	if _, err := p.loadRegistry(k, &v.registrySettings); err != nil {
		return err
	}
	switch {
	case v.Store == "":
		return usageError{errors.New("store is not set: name the store of the registry with --store or --config")}
	case v.Store.Embedded():
		return usageError{errors.New("store embedded: lives inside the running registry, and nothing outside can reach it: run the registry with --store redis://…")}
	case v.Upstream == "" && !v.keepsOwn:
		return usageError{errors.New("upstream is not set: name the registry to mirror with --upstream, or servers of your own with --servers-file")}
	}
	quiet := quietlog.New(atLeast{slog.LevelWarn, p.logHandler(v.LogFormat)})
	defer quiet.Flush()
	log := slog.New(quiet)
	store, err := v.open(ctx, nil)
	if err != nil {
		return err
	}
	defer store.Close()
	line := p.statusLine()
	pace := pace{began: time.Now()}
	keeper, err := v.keeper(store, log, 0, 0, func(r mirror.Report) { line.show(pace.at(time.Now(), r)) })
	if err != nil {
		return err
	}
	order := mirror.SyncOptions{Full: v.Full, AcceptShrink: v.AcceptShrink, AcceptChanged: v.AcceptChanged}
	report, err := v.sync(ctx, keeper, order, line)
	line.clear()
	if err != nil {
		return err
	}
	return v.tell(ctx, p, keeper, report)
}

// leaseWait is how long to wait for a process that has the catalogue: longer than the lease
// of one that is gone.
const leaseWait = 8 * time.Second

// sync does the round as soon as nobody else is at it.
func (v *registrySync) sync(ctx context.Context, keeper *mirror.Mirror, order mirror.SyncOptions, line *statusLine) (mirror.Report, error) {
	for begun := time.Now(); ; {
		report, err := keeper.SyncWith(ctx, order)
		var elsewhere *catalogue.LeasedError
		if !errors.As(err, &elsewhere) {
			return report, err
		}
		if time.Since(begun) > leaseWait {
			return report, fmt.Errorf("%s is filling the catalogue: what it has read is there, so wait for it", wordOf(elsewhere.Owner))
		}
		line.show("waiting for " + wordOf(elsewhere.Owner) + ", which is filling the catalogue or was")
		select {
		case <-ctx.Done():
			return report, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// pace is how fast a round goes: what was read before it was interrupted does not count.
type pace struct {
	began time.Time
	first int
	known bool
}

// at says how far it has come.
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

// synced is what was done, as --json prints it.
type synced struct {
	mirror.Report
	Shrink *mirror.Shrink `json:"shrink,omitempty"`
}

// tell prints what was done.
func (v *registrySync) tell(ctx context.Context, p *program, keeper *mirror.Mirror, report mirror.Report) error {
	status, err := keeper.Status(ctx)
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

// sentences say what was done and what is to be known about it.
func sentences(r mirror.Report, s mirror.Status) string {
	took := r.Ended.Sub(r.Began).Round(100 * time.Millisecond)
	text := ""
	say := func(applies bool, format string, args ...any) {
		if applies {
			text += fmt.Sprintf(format, args...) + "\n"
		}
	}
	switch {
	case r.Mode == mirror.ModeOwn:
		say(true, "servers of your own: %d", s.Own)
	case r.NotModified:
		say(true, "%s says that nothing has changed", s.Upstream)
	default:
		say(true, "read %s on %s from %s in %s", counted(r.Items, "record"), counted(r.Pages, "page"), s.Upstream, took)
	}
	say(r.Resumed && !r.Restarted, "it went on where an earlier run was interrupted")
	say(true, "%d added, %d updated, %d deleted", r.Added, r.Updated, r.Deleted)
	say(r.Vanished > 0, "%d of the deleted were not listed any more", r.Vanished)
	say(r.Mode == mirror.ModeFull && !r.Judged, "what is not listed any more is not known, because the crawl was interrupted: the next full one can tell")
	say(r.Invalid > 0, "%d could not be used:", r.Invalid)
	for _, example := range r.Examples {
		say(true, "  %s", wordOf(example))
	}
	say(r.Changed > 0, "%d are not what they were, which must not be; the first ones stay (--accept-changed takes the others)", r.Changed)
	say(r.Conflicts > 0, "%d have the names of servers of your own; yours stay", r.Conflicts)
	say(s.UnknownStatus > 0, "%d are hidden, because the upstream gives them a status that is not known here", s.UnknownStatus)
	say(r.Stripped > 0, "%d spoke under your own key of _meta; that was left out", r.Stripped)
	say(true, "the catalogue has %s of %s", counted(s.Rows, "version"), counted(s.Servers, "server"))
	return text
}

// atLeast passes log lines of a level or above.
type atLeast struct {
	level slog.Level
	slog.Handler
}

// Enabled reports whether a line is passed.
func (h atLeast) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

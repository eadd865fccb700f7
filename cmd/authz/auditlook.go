package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"gatehouse.example/audit"
	"gatehouse.example/audit/trail"
)

// auditSearch prints events that are selected.
type auditSearch struct {
	auditFilter
	Files []string `arg:"" name:"file" help:"The files."`
}

// Run prints the events in the order of the files.
func (v *auditSearch) Run(ctx context.Context, p *program, k *kong.Context) error {
	if err := p.loadEnvironment(k); err != nil {
		return err
	}
	filter, err := v.filter(time.Now())
	if err != nil {
		return err
	}
	return untilSignal(ctx, func() error {
		return trail.Search(filter, v.Files, func(f trail.Found) error { return p.printEvent(f.Line, v.JSON) })
	})
}

var errSignal = errors.New("a signal came before the end of the files")

// untilSignal reads files. It returns at a signal even if the reading goes on, because a pipe
// that nobody writes to keeps it waiting and a large file busy.
func untilSignal(ctx context.Context, read func() error) error {
	if ctx.Err() != nil {
		return errSignal
	}
	done := make(chan error, 1)
	go func() { done <- read() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return errSignal
	}
}

// auditTail prints the last events of a file.
type auditTail struct {
	auditFilter
	File   string `arg:"" help:"The file."`
	Lines  int    `short:"n" default:"10" placeholder:"N" help:"How many of the last events to print (default ${default})."`
	Follow bool   `short:"f" help:"Go on with events that are added, until Ctrl-C, also after the file was renamed."`
}

// auditPause is the time between two looks at a file that is followed.
const auditPause = 250 * time.Millisecond

// Run prints the events.
func (v *auditTail) Run(ctx context.Context, p *program, k *kong.Context) error {
	if err := p.loadEnvironment(k); err != nil {
		return err
	}
	filter, err := v.filter(time.Now())
	if err != nil {
		return err
	}
	wait := func() error {
		if !v.Follow {
			return io.EOF
		}
		select {
		case <-ctx.Done():
			return io.EOF
		case <-time.After(auditPause):
			return nil
		}
	}
	err = untilSignal(ctx, func() error {
		return trail.Follow(filter, v.File, max(v.Lines, 0), wait, func(l trail.Line) error { return p.printEvent(l, v.JSON) })
	})
	if errors.Is(err, io.EOF) || v.Follow && errors.Is(err, errSignal) {
		return nil
	}
	return err
}

// auditTrace prints what was done with a grant.
type auditTrace struct {
	Grant string   `arg:"" help:"The id of the grant, which authz grant ls prints."`
	Files []string `arg:"" name:"file" help:"The files of the authorization server, of gateways, and of other servers."`
	JSON  bool     `name:"json" help:"Print the events as JSON lines."`
}

// Run prints the events by time. Without any it is exit 1.
func (v *auditTrace) Run(ctx context.Context, p *program, k *kong.Context) error {
	if err := p.loadEnvironment(k); err != nil {
		return err
	}
	return untilSignal(ctx, func() error { return v.trace(p) })
}

// trace prints what can be read, also if some of the files cannot.
func (v *auditTrace) trace(p *program) error {
	found, err := trail.Trace(audit.Grant(v.Grant), v.Files)
	if err == nil && len(found) == 0 {
		return fmt.Errorf("there is no event of the grant %s in these files", wordOf(v.Grant))
	}
	for _, f := range found {
		if err := p.printEvent(f.Line, v.JSON); err != nil {
			return err
		}
	}
	return err
}

// printEvent prints an event in a line.
func (p *program) printEvent(l trail.Line, asJSON bool) error {
	if !asJSON {
		_, err := fmt.Fprintln(p.stdout, eventLine(l))
		return err
	}
	text, err := json.Marshal(l)
	if err == nil {
		_, err = p.stdout.Write(append(inert(text), '\n'))
	}
	return err
}

// eventLine returns an event for people: its time and kind, and what else it has by name.
func eventLine(l trail.Line) string {
	words := []string{l.Time.UTC().Format("2006-01-02T15:04:05.000Z"), wordOf(string(l.Kind))}
	add := func(name, value string) {
		if value != "" {
			words = append(words, name+"="+wordOf(value))
		}
	}
	add("by", string(l.By))
	add("how", string(l.How))
	add("code", string(l.Code))
	add("person", string(l.Person))
	add("client", string(l.Client))
	add("grant", string(l.Grant))
	add("token", string(l.Token))
	add("resources", joined(l.Resources, ","))
	add("scopes", joined(l.Scopes, ","))
	add("method", string(l.Method))
	add("name", string(l.Name))
	add("route", string(l.Route))
	add("key", string(l.Key))
	add("provider", string(l.Provider))
	add("issuer", string(l.Issuer))
	add("target", string(l.Target))
	add("operator", string(l.Operator))
	add("of", string(l.Of))
	if l.Count > 0 {
		add("count", strconv.Itoa(l.Count))
	}
	if l.About != nil {
		add("why", l.About.Why)
	}
	if l.Network.IsValid() {
		add("network", l.Network.String())
	}
	add("request", string(l.Request))
	return strings.Join(words, " ")
}

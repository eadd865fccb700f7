package main

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"gatehouse.example/audit"
	"gatehouse.example/audit/trail"
	"gatehouse.example/storage"
)

// act is a verb as an audit trail names it.
type act struct {
	verb   string // such as "user disable"
	target string // what the command line names
}

// looking are the last words of verbs that change nothing.
var looking = []string{"ls", "show", "check"}

// naming are the flags that name what a verb is about. No other flag is recorded: it may be a secret.
var naming = []string{"user", "client", "resource", "name", "all", "now"}

// actOf returns the verb of a command line and what it names.
func actOf(k *kong.Context) act {
	var a act
	var names []string
	for _, part := range k.Path {
		switch {
		case part.Command != nil:
			a.verb = strings.TrimSpace(a.verb + " " + part.Command.Name)
		case part.Positional != nil:
			names = append(names, wordsIn(part.Positional.Target)...)
		case part.Flag != nil && slices.Contains(naming, part.Flag.Name):
			names = append(names, part.Flag.Name+"="+strings.Join(wordsIn(part.Flag.Target), ","))
		}
	}
	a.target = strings.Join(names, " ")
	return a
}

// wordsIn returns the value of an argument as words.
func wordsIn(v reflect.Value) []string {
	if v.Kind() != reflect.Slice {
		return []string{fmt.Sprint(v.Interface())}
	}
	var words []string
	for i := range v.Len() {
		words = append(words, fmt.Sprint(v.Index(i).Interface()))
	}
	return words
}

// changes reports whether the verb may change something.
func (a act) changes() bool {
	words := strings.Fields(a.verb)
	return len(words) > 0 && words[0] != "audit" && !slices.Contains(looking, words[len(words)-1])
}

const (
	// actTime is for how long a verb waits for another one to write the same file.
	actTime = 10 * time.Second
	// actPause is the time between two attempts.
	actPause = 20 * time.Millisecond
)

// recordAct writes that an operator runs a verb, before it changes anything. A verb that cannot be
// recorded does nothing.
func (s *storeSettings) recordAct(ctx context.Context, p *program, store *storage.Store) error {
	if s.AuditVerbs == "" || !p.act.changes() {
		return nil
	}
	keys, err := auditKeys(s.MasterKeys, s.Issuer)
	if err != nil {
		return err
	}
	log, flush := p.logger("text")
	defer flush()
	config := trail.Config{Path: s.AuditVerbs, Key: &keys[0], OldKeys: keys[1:], Heads: auditHeads{store}, Program: "authz " + thisRelease().Version, Logger: log}
	opened, err := openWhenFree(ctx, config)
	if err != nil {
		return fmt.Errorf("audit-verbs: nothing was done, because it cannot be recorded: %w", err)
	}
	event := audit.Event{Kind: audit.AdminActed, By: audit.ByOperator, How: audit.How(p.act.verb), Target: audit.Target(p.act.target)}
	if who, err := user.Current(); err == nil {
		event.Operator = audit.Operator(who.Username)
	}
	opened.Record(event)
	if err := opened.Close(ctx); err != nil {
		return fmt.Errorf("audit-verbs: nothing was done, because it cannot be recorded: %w", err)
	}
	return nil
}

// openWhenFree opens a file that other verbs may be writing.
func openWhenFree(ctx context.Context, config trail.Config) (*trail.Trail, error) {
	ctx, cancel := context.WithTimeout(ctx, actTime)
	defer cancel()
	for {
		opened, err := trail.Open(ctx, config)
		if !errors.Is(err, trail.ErrInUse) {
			return opened, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(actPause):
		}
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"reflect"
	"slices"
	"strconv"
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
	target string // what it is about, and how
}

// actMistake returns an error if verbs would wait for the server to end its trail.
func (s actSettings) actMistake(ofServer string) error {
	if s.AuditVerbs == "" || s.AuditVerbs != ofServer {
		return nil
	}
	return errors.New("audit-verbs names the file of audit, which the server alone writes: name another one")
}

// actDoubts returns a warning if the server leaves a trail and its verbs do not.
func (s *serveSettings) actDoubts() []string {
	if s.Audit == "" || s.AuditVerbs != "" || s.Dev || s.Store.Embedded() {
		return nil
	}
	return []string{"audit-verbs is not set: the audit trail has what this server does, and not what operators change with verbs: name another file under audit-verbs"}
}

// deed is what a verb does, as far as an audit trail is concerned.
type deed int

const (
	changes deed = iota // it changes something, or copies everything
	looks               // it changes nothing
	apart               // it has no store, or is a server, which has a trail of its own
)

// deeds are all verbs but those that change something. Whatever is not here is recorded.
var deeds = map[string]deed{
	"user ls": looks, "user show": looks, "group ls": looks, "client ls": looks, "client show": looks, "grant ls": looks, "key ls": looks,
	"resource ls": looks, "resource show": looks, "resource check": looks, "store verify": looks,
	"audit verify": looks, "audit search": looks, "audit tail": looks, "audit trace": looks,
	"serve": apart, "check-config": apart, "gateway": apart, "registry serve": apart, "registry sync": apart, "reload": apart,
	"doctor": apart, "health": apart, "completion": apart, "manual": apart, "version": apart,
}

// revealing are flags with which a verb that looks prints a secret.
var revealing = []string{"credential"}

// naming are the flags whose values say what a verb is about. No other value is recorded, because it
// may be a secret; switches are.
var naming = []string{
	"user", "client", "resource", "name", "id", "from", "to", "uses", "expires", "for", "signing-algorithm", "software",
	"redirect-uri", "auth-method", "jwks-uri", "client-uri", "logo-uri",
	"scope", "default-scope", "allow-group", "allow-person", "allow-scope-group", "allow-scope-person", "claim",
}

// actOf returns the verb of a command line and what it is about: its arguments, and then its flags,
// wherever their values are from.
func actOf(k *kong.Context) act {
	var a act
	for _, part := range k.Path {
		if part.Command != nil {
			a.verb = strings.TrimSpace(a.verb + " " + part.Command.Name)
		}
	}
	verb := k.Selected()
	if verb == nil {
		return a
	}
	var words []string
	for _, argument := range verb.Positional {
		for _, word := range wordsIn(argument.Target) {
			words = append(words, argumentWord(word))
		}
	}
	for _, flag := range verb.Flags {
		value := strings.Join(wordsIn(flag.Target), ",")
		if isSwitch(flag) || slices.Contains(naming, flag.Name) && value != "" && value != flag.Default {
			words = append(words, flag.Name+"="+wordOf(value))
		}
	}
	a.target = strings.Join(words, " ")
	return a
}

// argumentWord returns an argument as no flag is written.
func argumentWord(argument string) string {
	text := wordOf(argument)
	if text == argument && strings.Contains(argument, "=") {
		return strconv.Quote(argument)
	}
	return text
}

// isSwitch reports whether a flag is set that has no other value, and is about more than the output.
func isSwitch(flag *kong.Flag) bool {
	return flag.Target.Kind() == reflect.Bool && flag.Target.Bool() != (flag.Default == "true") && flag.Name != "json" && flag.Name != "help"
}

// wordsIn returns the value of an argument or a flag as words.
func wordsIn(v reflect.Value) (words []string) {
	if v.Kind() != reflect.Slice {
		if v.IsZero() {
			return nil
		}
		return []string{fmt.Sprint(v.Interface())}
	}
	for i := range v.Len() {
		words = append(words, fmt.Sprint(v.Index(i).Interface()))
	}
	return words
}

// recorded reports whether the verb changes something, or reveals a secret.
func (a act) recorded() bool {
	reveals := func(word string) bool {
		name, _, isFlag := strings.Cut(word, "=")
		return isFlag && slices.Contains(revealing, name)
	}
	return deeds[a.verb] == changes || deeds[a.verb] == looks && slices.ContainsFunc(strings.Fields(a.target), reveals)
}

const (
	// actTime is for how long a verb waits for another one to write the same file.
	actTime = 10 * time.Second
	// actPause is the time between two attempts.
	actPause = 20 * time.Millisecond
)

// recordAct writes that an operator runs a verb, before it changes anything. A verb that cannot be
// recorded does nothing.
func (p *program) recordAct(ctx context.Context, file actSettings, seal sealSettings, heads trail.Heads) error {
	what := actOf(p.parsed)
	if file.AuditVerbs == "" || !what.recorded() {
		return nil
	}
	if err := seal.mistake(); err != nil {
		return usageError{fmt.Errorf("audit-verbs: nothing was done, because it cannot be recorded: %w", err)}
	}
	keys, err := auditKeys(seal.MasterKeys, seal.Issuer)
	if err != nil {
		return err
	}
	log, flush := p.logger("text")
	defer flush()
	config := trail.Config{Path: file.AuditVerbs, Key: &keys[0], OldKeys: keys[1:], Heads: heads, Program: "authz " + thisRelease().Version, Logger: log}
	opened, err := openWhenFree(ctx, config)
	if err != nil {
		return fmt.Errorf("audit-verbs: nothing was done, because it cannot be recorded: %w", err)
	}
	event := audit.Event{Kind: audit.AdminActed, By: audit.ByOperator, How: audit.How(what.verb), Target: audit.Target(what.target)}
	if who, err := user.Current(); err == nil {
		event.Operator = audit.Operator(who.Username)
	}
	opened.Record(event)
	if err := opened.Close(ctx); err != nil {
		return fmt.Errorf("audit-verbs: nothing was done, because it cannot be recorded: %w", err)
	}
	return nil
}

// recordActAt is recordAct with the heads in the store that a verb copies. Keep says that the store
// takes a head: one that is being copied would differ from its copy.
func (p *program) recordActAt(ctx context.Context, file actSettings, seal sealSettings, backend storage.Backend, keep bool) error {
	if file.AuditVerbs == "" {
		return nil
	}
	if err := seal.mistake(); err != nil {
		return usageError{fmt.Errorf("audit-verbs: nothing was done, because it cannot be recorded: %w", err)}
	}
	store, err := storage.New(backend, seal.options())
	if err != nil {
		return err
	}
	var heads trail.Heads = auditHeads{store}
	if !keep {
		heads = onlyHeads{heads}
	}
	return p.recordAct(ctx, file, seal, heads)
}

// onlyHeads are heads of a store that takes no others.
type onlyHeads struct{ trail.Heads }

// KeepAuditHead implements [trail.Heads].
func (onlyHeads) KeepAuditHead(context.Context, string, string, trail.Head) error { return nil }

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

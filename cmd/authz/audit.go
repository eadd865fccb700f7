package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"gatehouse.example/audit"
	"gatehouse.example/audit/trail"
	"gatehouse.example/cmd/authz/internal/settings"
)

// auditVerbs work on the files of audit trails.
type auditVerbs struct {
	Verify auditVerify `cmd:"" help:"Say which lines of audit trails were changed, removed or moved."`
	Search auditSearch `cmd:"" help:"Print the events of audit trails that are selected."`
	Tail   auditTail   `cmd:"" help:"Print the last events of an audit trail, and with -f those that follow."`
	Trace  auditTrace  `cmd:"" help:"Print what was done with a grant, from the files of all servers, by time."`
}

// auditVerify checks files.
type auditVerify struct {
	storeSettings
	Files        []string        `arg:"" name:"file" help:"The files, in any order: all that the chains have, or their last ones."`
	AuditKey     settings.Secret `placeholder:"KEY" help:"The audit key of gateways, base64 of 32 bytes or more; the master keys check the files of authorization servers."`
	AuditKeyFile string          `placeholder:"FILE" help:"File that contains it."`
	Head         bool            `default:"true" negatable:"" help:"Ask the store for the last line of each chain, which shows a cut-off end (default ${default})."`
	All          bool            `help:"Each trail that the store knows must be among the files: one that is not is a fault."`
	JSON         bool            `name:"json" help:"Print the result as JSON."`
}

// Run checks the files. Faults are exit 1.
func (v *auditVerify) Run(ctx context.Context, p *program, k *kong.Context) error {
	if _, err := p.loadStore(k); err != nil {
		return err
	}
	o, done, err := v.with(ctx)
	if err != nil {
		return err
	}
	defer done()
	var found trail.Verified
	err = untilSignal(ctx, func() (err error) {
		found, err = trail.Verify(ctx, o, v.Files...)
		return err
	})
	if err != nil {
		return err
	}
	if len(o.Keys) == 0 && slices.ContainsFunc(found.Faults, func(f trail.Fault) bool { return f.What == "unknown-key" }) {
		return usageError{errors.New("the files are under a key: give --issuer with the master keys of the server, its --config, or the --audit-key-file of a gateway")}
	}
	if v.JSON {
		err = p.printJSON(found)
	} else {
		p.printVerified(found)
	}
	if n := len(found.Faults) + found.More; n > 0 {
		return errors.Join(err, fmt.Errorf("%s in the audit trail", counted(n, "fault")))
	}
	return err
}

// with returns the keys, and the heads if a store is named, and a function that closes it.
func (v *auditVerify) with(ctx context.Context) (trail.Verifying, func(), error) {
	done := func() {}
	keys, err := auditKeys(v.MasterKeys, v.Issuer)
	if v.AuditKey != "" {
		key, keyErr := gatewayAuditKey(v.AuditKey)
		keys, err = append(keys, key), errors.Join(err, keyErr)
	}
	if len(v.MasterKeys) > 0 && v.Issuer == "" {
		err = errors.Join(err, usageError{errors.New("issuer is not set: the key of an audit trail is made from the master key and the issuer")})
	}
	o := trail.Verifying{Keys: keys, All: v.All}
	v.takeDefaultStore()
	if !v.Head || v.Store == "" || v.Store.Embedded() || len(v.MasterKeys) == 0 {
		if v.All {
			err = errors.Join(err, usageError{errors.New("all: the store knows which trails there are: give --store, the issuer and the master keys, or --config, and leave out --no-head")})
		}
		return o, done, err
	}
	if err != nil {
		return o, done, err
	}
	store, err := v.openQuietly(ctx)
	if err != nil {
		return o, done, fmt.Errorf("%w (--no-head does without the store)", err)
	}
	o.Heads = auditHeads{store}
	return o, func() { _ = store.Close() }, nil
}

// takeDefaultStore names the store that a server of this user has when it names none, if there is one.
func (v *auditVerify) takeDefaultStore() {
	if v.Store != "" {
		return
	}
	byDefault, err := defaultStore()
	if err != nil {
		return // there is none for this user
	}
	if path, err := byDefault.File(); err == nil {
		if _, err := os.Stat(path); err == nil {
			v.Store = byDefault
		}
	}
}

// printVerified prints what was found for people.
func (p *program) printVerified(v trail.Verified) {
	for _, f := range v.Faults {
		fmt.Fprintf(p.stdout, "%s: %s\n", wordOf(f.File), f.Said)
	}
	if v.More > 0 {
		fmt.Fprintf(p.stdout, "and %d more\n", v.More)
	}
	for _, c := range v.Chains {
		key := "without a key"
		if c.Keyed {
			key = "under a key"
		}
		end := map[string]string{"closed": "it ends with a closing line", "head": "its end is the one that the store knows, or later"}[c.End]
		fmt.Fprintf(p.stdout, "chain %s of %s, %s: %s good, numbers %d to %d in %s; %s\n", wordOf(c.Chain), wordOf(c.Host), key,
			counted(c.Lines, "line"), c.First, c.Last, counted(len(c.Files), "file"), cmp.Or(end, "its end is not known"))
		for _, note := range c.Notes {
			fmt.Fprintf(p.stdout, "  %s\n", note)
		}
	}
	for _, h := range v.NotGiven {
		fmt.Fprintf(p.stdout, "not given: %s of %s, whose last line that the store knows is number %d, of %s\n", wordOf(h.Path), wordOf(h.Host), h.Seq, moment(h.At.UTC().Truncate(time.Second)))
	}
}

// auditFilter are the flags that select events.
type auditFilter struct {
	Person   string   `placeholder:"SUB" help:"Only events of this person: the subject, which authz user show prints."`
	Client   string   `placeholder:"ID" help:"Only events of this client."`
	Grant    string   `placeholder:"ID" help:"Only events of this grant."`
	Token    string   `placeholder:"JTI" help:"Only events of the access token with this id."`
	Resource string   `placeholder:"URI" help:"Only events of this resource."`
	Event    []string `placeholder:"KIND" help:"Only events of this kind, such as token-issued; repeatable."`
	Since    string   `placeholder:"TIME" help:"Only events from this time on, such as 2026-01-02T15:04:05Z, or 2h for two hours ago."`
	Until    string   `placeholder:"TIME" help:"Only events before this time."`
	JSON     bool     `name:"json" help:"Print the events as JSON lines."`
}

func (f auditFilter) filter(now time.Time) (trail.Filter, error) {
	out := trail.Filter{
		Person: audit.Person(f.Person), Client: audit.Client(f.Client), Grant: audit.Grant(f.Grant), Token: audit.Token(f.Token), Resource: audit.Resource(f.Resource),
	}
	var errs []error
	for _, event := range f.Event {
		if !slices.Contains(audit.Kinds(), audit.Kind(event)) {
			errs = append(errs, usageError{fmt.Errorf("event %q is not one of %s", event, joined(audit.Kinds(), ", "))})
		}
		out.Kinds = append(out.Kinds, audit.Kind(event))
	}
	var err1, err2 error
	out.Since, err1 = momentOf("since", f.Since, now)
	out.Until, err2 = momentOf("until", f.Until, now)
	return out, errors.Join(append(errs, err1, err2)...)
}

func joined[T ~string](words []T, between string) string {
	texts := make([]string, len(words))
	for i, word := range words {
		texts[i] = string(word)
	}
	return strings.Join(texts, between)
}

// momentOf parses a time, or how long ago it was.
func momentOf(name, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	var ago settings.Duration
	if ago.UnmarshalText([]byte(text)) == nil {
		return now.Add(-time.Duration(ago)), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, usageError{fmt.Errorf("%s %q is not a time: write it like 2026-01-02T15:04:05Z, or 2h for two hours ago", name, text)}
	}
	return at, nil
}

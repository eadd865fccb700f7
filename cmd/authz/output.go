package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

// outputError means that standard output took nothing more, for example because a disk is full.
type outputError struct{ error }

func (e outputError) Unwrap() error { return e.error }

// tellingOutput remembers that a write failed.
type tellingOutput struct {
	io.Writer
	err error
}

// Write implements [io.Writer].
func (o *tellingOutput) Write(text []byte) (int, error) {
	n, err := o.Writer.Write(text)
	if err != nil && o.err == nil {
		o.err = err
	}
	return n, err
}

// lost says what to do when a verb changed something and what it printed is lost. NAME stands for
// its first argument.
var lost = map[string]string{
	"user":             "authz user ls lists the people",
	"user add":         "authz user show NAME prints the person",
	"user invite":      "the link is lost with it, and authz user reset NAME makes another one",
	"user reset":       "the link is lost with it, and the same command makes another one",
	"group":            "authz group ls lists the groups",
	"client":           "authz client ls lists the clients",
	"client add":       "a secret that was drawn is lost with it; find the client with authz client ls, remove it with authz client rm, and add it again",
	"client token":     "the token is lost with it, and the same command makes another one",
	"resource":         "authz resource ls lists the resources",
	"resource add":     "a secret that was drawn is lost with it, and the same command with --replace draws another one",
	"grant":            "authz grant ls lists the grants; with --json some may be left, which the same command ends",
	"key":              "authz key ls lists the keys",
	"key reseal":       "the same command looks again, and prints it again",
	"key seal-records": "the same command prints what is sealed",
	"store backup":     "authz store verify NAME prints what is in the copy",
}

// complete adds what follows from lost output to the error of a verb: that what it changed is
// changed, and the next step.
func (o *tellingOutput) complete(what act, argument string, err error) error {
	if o.err == nil {
		return err
	}
	if !errors.Is(err, o.err) {
		err = errors.Join(err, o.err)
	}
	if deeds[what.verb] != changes {
		return err
	}
	advice, ok := lost[what.verb]
	if !ok {
		group, _, _ := strings.Cut(what.verb, " ")
		advice = lost[group]
	}
	sentence := "what this command changed is stored, and what it printed about it is lost"
	if advice != "" {
		sentence += ": " + strings.ReplaceAll(advice, "NAME", wordOf(argument))
	}
	return errors.Join(err, errors.New(sentence))
}

// runVerb runs the verb that was parsed. A verb that changes something, or only looks, fails if what
// it prints is lost.
func (p *program) runVerb(parsed *kong.Context) error {
	what := actOf(parsed)
	if deeds[what.verb] == apart {
		return parsed.Run(p)
	}
	out := &tellingOutput{Writer: p.stdout}
	p.stdout = out
	err := parsed.Run(p)
	argument := ""
	if verb := parsed.Selected(); len(verb.Positional) > 0 {
		argument = fmt.Sprint(verb.Positional[0].Target.Interface())
	}
	return out.complete(what, argument, err)
}

// printHelp is [kong.DefaultHelpPrinter]. Its error is no mistake on the command line.
func printHelp(options kong.HelpOptions, k *kong.Context) error {
	if err := kong.DefaultHelpPrinter(options, k); err != nil {
		return outputError{err}
	}
	return nil
}

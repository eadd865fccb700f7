package main

import (
	"context"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"gatehouse.example/cmd/authz/internal/settings"
)

// servers lists the verbs that run a server, each with the fields of grammar whose flags it reads:
// serve may carry a registry, and a registry reads the file of serve. The whole grammar takes five
// times as long to build, and a server keeps it.
var servers = map[string][]string{
	"serve":    {"Serve", "Registry"},
	"registry": {"Serve", "Registry"},
	"gateway":  {"Gateway"},
}

// parse reads a command line. It calls exit after it has printed the help. Whatever a part of the
// grammar does not take is read with the whole, so that help and mistakes are the same.
func (p *program) parse(ctx context.Context, args []string, exit func(int)) (*kong.Context, error) {
	if part := partFor(args); part != nil {
		parser, err := p.parser(ctx, part, func(int) {})
		if err != nil {
			return nil, err
		}
		if parsed, err := parser.Parse(args); err == nil {
			return parsed, nil
		}
	}
	parser, err := p.parser(ctx, &grammar{}, exit)
	if err != nil {
		return nil, err
	}
	return parser.Parse(args)
}

// partFor returns the part of grammar that a command line needs, and nil for the whole.
func partFor(args []string) any {
	asksHelp := func(arg string) bool { return strings.HasPrefix(arg, "-h") || strings.HasPrefix(arg, "--h") }
	if len(args) == 0 || servers[args[0]] == nil || slices.ContainsFunc(args, asksHelp) {
		return nil
	}
	var fields []reflect.StructField
	for _, name := range servers[args[0]] {
		field, _ := reflect.TypeFor[grammar]().FieldByName(name)
		fields = append(fields, reflect.StructField{Name: field.Name, Type: field.Type, Tag: field.Tag})
	}
	return reflect.New(reflect.StructOf(fields)).Interface()
}

// takenForFlags returns a line that says how to write an id that begins with a dash, if a mistake in a
// command line is that it was taken for flags, and otherwise "". Every sixty-fourth id of a client, a
// grant or a key begins so.
func takenForFlags(mistake error, args []string) string {
	if !strings.HasPrefix(mistake.Error(), "unknown flag ") {
		return ""
	}
	for _, arg := range args {
		switch {
		case arg == "--":
			return ""
		case drawnWithDash.MatchString(arg) && (arg[1] != '-' || strings.Contains(mistake.Error(), arg)):
			return "\n" + arg + " begins with a dash: write it after --, behind all flags, as in authz VERB --config FILE -- " + arg
		}
	}
	return ""
}

// drawnWithDash matches ids of 16 bytes and digests of 32 in base64url that begin with a dash.
var drawnWithDash = regexp.MustCompile(`^-(?:[A-Za-z0-9_-]{21}|[A-Za-z0-9_-]{42})$`)

// unknownVariables returns a warning for each variable that is the setting of no verb, whichever
// part of the grammar app is.
func (p *program) unknownVariables(app *kong.Application) []string {
	if len(p.env.UnknownVariables(settings.EveryFlag(app.Node))) == 0 {
		return nil
	}
	whole, err := p.parser(context.Background(), &grammar{}, func(int) {})
	if err != nil {
		return nil // the grammar is part of the program, and tested
	}
	return p.env.UnknownVariables(settings.EveryFlag(whole.Model.Node))
}

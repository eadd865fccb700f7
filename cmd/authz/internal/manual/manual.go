// Package manual writes what people read and type about a command line, from the one description
// that also parses it: the page for man, and completions for shells.
package manual

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// verb is a command, or a group of commands.
type verb struct {
	path     string // as it is typed, without the program: "user add", and "" for the program itself
	help     string
	children []*kong.Node
	flags    []*kong.Flag
	node     *kong.Node
}

// verbs lists the program and all its verbs that are not hidden, each before those below it.
func verbs(app *kong.Application) []verb {
	var all []verb
	var walk func(path string, n *kong.Node)
	walk = func(path string, n *kong.Node) {
		v := verb{path: path, help: n.Help, children: visible(n.Children), flags: slices.Concat(n.AllFlags(true)...), node: n}
		all = append(all, v)
		for _, child := range v.children {
			walk(strings.TrimSpace(path+" "+child.Name), child)
		}
	}
	walk("", app.Node)
	return all
}

func visible(nodes []*kong.Node) []*kong.Node {
	var shown []*kong.Node
	for _, n := range nodes {
		if n.Type == kong.CommandNode && !n.Hidden {
			shown = append(shown, n)
		}
	}
	return shown
}

// words are what may follow the verb: verbs below it, its flags, and values of its arguments if
// there are few.
func (v verb) words() []word {
	var all []word
	for _, child := range v.children {
		all = append(all, word{child.Name, child.Help})
	}
	for _, argument := range v.node.Positional {
		for _, value := range choices(argument) {
			all = append(all, word{value, ""})
		}
	}
	for _, flag := range v.flags {
		all = append(all, word{"--" + flag.Name, flag.Help})
	}
	return all
}

// word is one that may be typed, and what it means.
type word struct{ text, help string }

// choices are the values of an argument or a flag, or none when there is no list of them.
func choices(v *kong.Value) []string {
	if v.Enum == "" {
		return nil
	}
	return slices.DeleteFunc(v.EnumSlice(), func(s string) bool { return s == "" })
}

// takesValue reports whether a word follows the flag.
func takesValue(f *kong.Flag) bool { return !f.IsBool() && !f.IsCounter() }

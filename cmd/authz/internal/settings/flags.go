package settings

import "github.com/alecthomas/kong"

// FileKeys returns the names of the flags that a file may set: all but config.
func FileKeys(flags []*kong.Flag) []string {
	var names []string
	for _, flag := range flags {
		if flag.Name != "config" {
			names = append(names, flag.Name)
		}
	}
	return names
}

// FlagsOf returns the flags of a verb in the order of their declaration.
func FlagsOf(app *kong.Application, verb string) []*kong.Flag {
	for _, node := range app.Children {
		if node.Name == verb {
			return node.Flags
		}
	}
	return nil
}

// EveryFlag returns the names of the flags of a verb and of all verbs below it.
func EveryFlag(node *kong.Node) []string {
	var names []string
	for _, flag := range node.Flags {
		names = append(names, flag.Name)
	}
	for _, child := range node.Children {
		names = append(names, EveryFlag(child)...)
	}
	return names
}

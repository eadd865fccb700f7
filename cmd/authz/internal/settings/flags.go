package settings

import "github.com/alecthomas/kong"

// FileKeys are the names of flags without that of the file.
func FileKeys(flags []*kong.Flag) []string {
	var names []string
	for _, flag := range flags {
		if flag.Name != "config" {
			names = append(names, flag.Name)
		}
	}
	return names
}

// FlagsOf are the flags of a verb, in the order in which they are declared.
func FlagsOf(app *kong.Application, verb string) []*kong.Flag {
	for _, node := range app.Children {
		if node.Name == verb {
			return node.Flags
		}
	}
	return nil
}

// EveryFlag lists the flags of a verb and of those below it.
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

package settings

import (
	"fmt"
	"slices"

	"github.com/alecthomas/kong"
)

// SecretRisks returns a sentence for each secret that other people on this machine can read: on
// the command line, or in a file. It says which setting, never the secret. There may be no
// file of settings.
func SecretRisks(flags []*kong.Flag, origins map[string]Origin, file *Document) (sentences []string) {
	for _, flag := range flags {
		if confidential(flag) && origins[flag.Name].Where == "--"+flag.Name {
			sentences = append(sentences, fmt.Sprintf("%s is on the command line, which everybody on this machine can read: set %s, or %s to a file that holds it",
				flag.Name, Variable(flag.Name), Variable(flag.Name+"-file")))
		}
	}
	for _, place := range slices.Concat(namedFiles(flags, origins), file.places(flags, origins)) {
		if who := WhoReads(place.file); who != "" {
			sentences = append(sentences, fmt.Sprintf("%s: %s can read %s, which holds a secret: chmod 600 it, and let it belong to the user that runs the program", place.key, who, place.file))
		}
	}
	return sentences
}

// secretPlace is a file that holds a secret, and the setting that names it.
type secretPlace struct{ key, file string }

// confidential reports whether a flag holds a secret: a store's URL does with a password.
func confidential(flag *kong.Flag) bool {
	switch value := flag.Target.Interface().(type) {
	case Secret:
		return value != ""
	case MasterKeys:
		return len(value) > 0
	case ProxyURL:
		return value.String() != string(value)
	case StoreURL:
		return value.String() != string(value)
	}
	return false
}

// namedFiles are the files with secrets that flags name: those of secrets, and the private key
// of TLS.
func namedFiles(flags []*kong.Flag, origins map[string]Origin) (out []secretPlace) {
	for _, flag := range flags {
		if flag.Name == "tls-key" && flag.Target.String() != "" {
			out = append(out, secretPlace{flag.Name, flag.Target.String()})
		}
		for _, twin := range flags {
			if twin.Name == flag.Name+"-file" && confidential(flag) && origins[twin.Name].Rank > ByDefault && origins[twin.Name] == origins[flag.Name] {
				out = append(out, secretPlace{twin.Name, twin.Target.String()})
			}
		}
	}
	return out
}

// places are the files with secrets that the file of settings names, and the file itself if
// secrets stand in it. There may be none.
func (d *Document) places(flags []*kong.Flag, origins map[string]Origin) []secretPlace {
	if d == nil {
		return nil
	}
	inline := d.inline
	for _, flag := range flags {
		if _, here := d.Values[flag.Name]; here && confidential(flag) && origins[flag.Name].Rank == ByFile {
			inline = true
		}
	}
	out := d.secrets
	if inline {
		out = append([]secretPlace{{"config", d.name}}, out...)
	}
	return out
}

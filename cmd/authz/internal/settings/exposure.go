package settings

import (
	"fmt"
	"slices"

	"github.com/alecthomas/kong"
)

// SecretRisks returns a warning for each secret that other users of this machine can read: on
// the command line or in a file. A warning names the setting and never the secret. File is nil
// if there is no file of settings.
func SecretRisks(flags []*kong.Flag, origins map[string]Origin, file *Document) (sentences []string) {
	for _, flag := range flags {
		if confidential(flag) && origins[flag.Name].Where == "--"+flag.Name {
			sentences = append(sentences, fmt.Sprintf("%s is on the command line, which everybody on this machine can read: set %s, or %s to a file that contains it",
				flag.Name, Variable(flag.Name), Variable(flag.Name+"-file")))
		}
	}
	for _, place := range slices.Concat(namedFiles(flags, origins), file.places(flags, origins)) {
		if readers := OtherReaders(place.file); readers != "" {
			sentences = append(sentences, fmt.Sprintf("%s: %s can read %s, which contains a secret: chmod 600 it, and let it belong to the user that runs the program", place.key, readers, place.file))
		}
	}
	return sentences
}

// secretPlace is a file that contains a secret, and the setting that names it.
type secretPlace struct{ key, file string }

// confidential reports whether the value of a flag contains a secret. The URL of a store or a
// proxy does if it has a password.
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

// namedFiles returns the files with secrets that flags name: those that a secret was read from,
// and the private key for TLS.
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

// places returns the files with secrets that lists in the file of settings name, and the file
// itself if it contains a secret. The receiver may be nil.
func (d *Document) places(flags []*kong.Flag, origins map[string]Origin) []secretPlace {
	if d == nil {
		return nil
	}
	inline := d.inline
	for _, flag := range flags {
		if _, set := d.Values[flag.Name]; set && confidential(flag) && origins[flag.Name].Rank == ByFile {
			inline = true
		}
	}
	out := d.secrets
	if inline {
		out = append([]secretPlace{{"config", d.name}}, out...)
	}
	return out
}

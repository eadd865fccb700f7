package manual

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Shells are those for which there are completions.
var Shells = []string{"bash", "zsh", "fish"}

// Completion returns the script that completes the command line in one of Shells, and false for
// another shell. The script runs no program: it contains every verb and flag.
func Completion(app *kong.Application, shell string) (string, bool) {
	switch shell {
	case "bash":
		return bash(app), true
	case "zsh":
		return zsh(app), true
	case "fish":
		return fish(app), true
	}
	return "", false
}

// bash answers with words, and with files where there are none: after a flag that takes any value.
func bash(app *kong.Application) string {
	name, all := app.Name, verbs(app)
	var b strings.Builder
	fmt.Fprintf(&b, "# bash completion for %s: source this file, or put it where bash-completion looks.\n", name)
	fmt.Fprintf(&b, "_%s() {\n\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} at= words= i\n", name)
	b.WriteString("\tif [ \"$cur\" = = ]; then cur=; elif [ \"$prev\" = = ]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi\n")
	b.WriteString("\tfor ((i = 1; i < COMP_CWORD; i++)); do\n\t\tcase ${at:+$at }${COMP_WORDS[i]} in\n")
	fmt.Fprintf(&b, "\t\t%s) at=${at:+$at }${COMP_WORDS[i]} ;;\n\t\tesac\n\tdone\n", patterns(all))
	b.WriteString("\tcase $at:$prev in\n")
	for _, v := range all {
		for _, flag := range v.flags {
			if takesValue(flag) {
				fmt.Fprintf(&b, "\t'%s:--%s') words='%s' ;;\n", v.path, flag.Name, strings.Join(choices(flag.Value), " "))
			}
		}
	}
	b.WriteString("\t*)\n\t\tcase $at in\n")
	for _, v := range all {
		fmt.Fprintf(&b, "\t\t'%s') words='%s' ;;\n", v.path, strings.Join(texts(v.words()), " "))
	}
	b.WriteString("\t\tesac\n\t\t;;\n\tesac\n\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}\n")
	fmt.Fprintf(&b, "complete -o default -F _%s %s\n", name, name)
	return b.String()
}

// zsh answers with words and what they mean, and with files after a flag that takes any value.
func zsh(app *kong.Application) string {
	name, all := app.Name, verbs(app)
	var b strings.Builder
	fmt.Fprintf(&b, "#compdef %s\n# zsh completion for %s: put this file into a folder of $fpath, as _%s.\n", name, name, name)
	fmt.Fprintf(&b, "_%s() {\n\tlocal at= i\n\tlocal -a words_here\n", name)
	b.WriteString("\tfor ((i = 2; i < CURRENT; i++)); do\n\t\tcase ${at:+$at }$words[i] in\n")
	fmt.Fprintf(&b, "\t\t(%s) at=${at:+$at }$words[i] ;;\n\t\tesac\n\tdone\n", patterns(all))
	b.WriteString("\tcase $at:$words[CURRENT-1] in\n")
	for _, v := range all {
		for _, flag := range v.flags {
			switch values := choices(flag.Value); {
			case len(values) > 0:
				fmt.Fprintf(&b, "\t('%s:--%s') words_here=(%s); _describe value words_here; return ;;\n", v.path, flag.Name, strings.Join(values, " "))
			case takesValue(flag):
				fmt.Fprintf(&b, "\t('%s:--%s') _files; return ;;\n", v.path, flag.Name)
			}
		}
	}
	b.WriteString("\tesac\n\tcase $at in\n")
	for _, v := range all {
		fmt.Fprintf(&b, "\t('%s') words_here=(\n", v.path)
		for _, w := range v.words() {
			fmt.Fprintf(&b, "\t\t%s\n", single(w.text+":"+line(w.help)))
		}
		b.WriteString("\t) ;;\n")
	}
	fmt.Fprintf(&b, "\tesac\n\t_describe %s words_here || _files\n}\n", name)
	// Sourced, the file defines; read by autoload, its body is the function, called at once.
	fmt.Fprintf(&b, "if [ \"$funcstack[1]\" = _%s ]; then _%s \"$@\"; else compdef _%s %s; fi\n", name, name, name, name)
	return b.String()
}

// fish has one line for each word, with what it means.
func fish(app *kong.Application) string {
	name, all := app.Name, verbs(app)
	var b strings.Builder
	fmt.Fprintf(&b, "# fish completion for %s: put this file into a folder of $fish_complete_path.\n", name)
	fmt.Fprintf(&b, "function __%s_at --description 'whether these verbs are typed'\n\tset -l at\n", name)
	b.WriteString("\tfor word in (commandline -opc)[2..-1]\n\t\tswitch (string join ' ' -- $at $word)\n")
	var paths []string
	for _, v := range all[1:] {
		paths = append(paths, single(v.path))
	}
	fmt.Fprintf(&b, "\t\tcase %s\n\t\t\tset at $at $word\n\t\tend\n\tend\n\ttest \"$at\" = \"$argv\"\nend\n", strings.Join(paths, " "))
	for _, v := range all {
		condition := single(strings.TrimSpace("__" + name + "_at " + v.path))
		if !strings.HasPrefix(v.words()[0].text, "--") { // words of its own, and then no files
			fmt.Fprintf(&b, "complete -c %s -n %s -f\n", name, condition)
		}
		for _, w := range v.words() {
			if !strings.HasPrefix(w.text, "--") {
				fmt.Fprintf(&b, "complete -c %s -n %s -a %s -d %s\n", name, condition, w.text, single(line(w.help)))
			}
		}
		for _, flag := range v.flags {
			fmt.Fprintf(&b, "complete -c %s -n %s -l %s -d %s%s\n", name, condition, flag.Name, single(line(flag.Help)), fishValue(flag))
		}
	}
	return b.String()
}

// fishValue says what follows a flag: nothing, one of few words, or anything.
func fishValue(flag *kong.Flag) string {
	switch values := choices(flag.Value); {
	case len(values) > 0:
		return " -x -a " + single(strings.Join(values, " "))
	case takesValue(flag):
		return " -r"
	}
	return ""
}

// patterns are all verbs as one pattern of a case.
func patterns(all []verb) string {
	var quoted []string
	for _, v := range all[1:] {
		quoted = append(quoted, "'"+v.path+"'")
	}
	return strings.Join(quoted, "|")
}

func texts(words []word) []string {
	var all []string
	for _, w := range words {
		all = append(all, w.text)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// line is the beginning of a help text, short enough for a line of a list.
func line(help string) string {
	help, _, _ = strings.Cut(strings.Join(strings.Fields(help), " "), ". ")
	if runes := []rune(help); len(runes) > 70 {
		help = string(runes[:69]) + "…"
	}
	return strings.TrimSuffix(help, ".")
}

// single quotes a text for each of the shells: within the quotes only the quote and, for fish, the
// backslash mean something, and neither is needed in a line of help.
func single(text string) string {
	return "'" + strings.NewReplacer("'", "’", `\`, "").Replace(text) + "'"
}

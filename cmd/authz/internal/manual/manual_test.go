package manual

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// grammar is a command line with everything that is told apart.
type grammar struct {
	User struct {
		Add struct {
			Name  string `arg:"" help:"The person's name."`
			Quiet bool   `help:"Say nothing. Really."`
			Role  string `enum:"reader,writer," default:"" help:"What they may do."`
		} `cmd:"" help:"Add a person."`
		Ls struct{} `cmd:"" help:"List people."`
	} `cmd:"" help:"Administer people."`
	Serve struct {
		Config string `placeholder:"FILE" help:"A file's name."`
	} `cmd:"" help:"Run a server."`
	Shell struct {
		Name string `arg:"" enum:"bash,zsh" help:"Which."`
	} `cmd:"" help:".starts with a dot"`
	Secret struct{} `cmd:"" hidden:"" help:"Nobody sees it."`
}

func model(t *testing.T) *kong.Application {
	t.Helper()
	parser, err := kong.New(&grammar{}, kong.Name("tool"), kong.Description("A tool."))
	if err != nil {
		t.Fatal(err)
	}
	return parser.Model
}

// completions are what a shell offers after each line, where the last word is begun or empty.
var completions = []struct {
	line, want string
}{
	{"tool ", "--help serve shell user"},
	{"tool us", "user"},
	{"tool user ", "--help add ls"},
	{"tool user add --", "--help --quiet --role"},
	{"tool user add --quiet ls --r", "--role"},
	{"tool user add --role ", "reader writer"},
	{"tool user add --role w", "writer"},
	{"tool serve --c", "--config"},
	{"tool shell ", "--help bash zsh"},
	{"tool shell z", "zsh"},
	{"tool sec", ""},
}

// shell runs a program of a shell on the script, which is in a file of its own.
func shell(t *testing.T, name, program string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skip(name + " is not here")
	}
	script, ok := Completion(model(t), name)
	if !ok {
		t.Fatal("no script")
	}
	file := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-c", strings.ReplaceAll(program, "SCRIPT", file))
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// compare compares the answers, one line each, with those that are wanted.
func compare(t *testing.T, out string) {
	t.Helper()
	got := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if len(got) != len(completions) {
		t.Fatalf("%d answers to %d lines:\n%s", len(got), len(completions), out)
	}
	for i, c := range completions {
		words := strings.Fields(got[i])
		slices.Sort(words)
		if strings.Join(words, " ") != c.want {
			t.Errorf("%q: %q, not %q", c.line, words, c.want)
		}
	}
}

// TestBash: bash itself completes.
func TestBash(t *testing.T) {
	t.Parallel()
	program := "source SCRIPT; complete -p tool >/dev/null || exit 1\n"
	for _, c := range completions {
		words := strings.Split(c.line, " ")
		program += fmt.Sprintf("COMP_WORDS=('%s') COMP_CWORD=%d; _tool; echo \"${COMPREPLY[@]}\"\n", strings.Join(words, "' '"), len(words)-1)
	}
	// With an equals sign, which bash makes a word of its own, and for a flag with any value.
	program += "COMP_WORDS=(tool user add --role = wr) COMP_CWORD=5; _tool; echo \"also:${COMPREPLY[@]}\"\n"
	program += "COMP_WORDS=(tool serve --config '') COMP_CWORD=3; _tool; echo \"also:${COMPREPLY[@]}\"\n"
	out, also, _ := strings.Cut(shell(t, "bash", program), "also:")
	compare(t, out)
	if also != "writer\nalso:\n" {
		t.Errorf("after --role=wr and --config: %q", also)
	}
}

// TestZsh: zsh runs the function, whose words reach its list of choices.
func TestZsh(t *testing.T) {
	t.Parallel()
	program := "compdef() { }; _files() { words_shown=(); }; _describe() { words_shown=(${(P)2%%:*}); }; source SCRIPT\n"
	for _, c := range completions {
		words := strings.Split(c.line, " ")
		begun := words[len(words)-1]
		program += fmt.Sprintf("words=('%s') CURRENT=%d words_shown=(); _tool; print -r -- ${(M)words_shown:#%s*}\n", strings.Join(words, "' '"), len(words), begun)
	}
	compare(t, shell(t, "zsh", "setopt extendedglob\n"+program))
}

// TestFish: fish itself completes. It offers flags only when a hyphen is typed.
func TestFish(t *testing.T) {
	t.Parallel()
	program := "source SCRIPT\n"
	for _, c := range completions {
		program += fmt.Sprintf("echo (complete -C '%s' | string split -f 1 \\t)\n", c.line)
	}
	got := strings.Split(shell(t, "fish", program), "\n")
	for i, c := range completions {
		want := strings.Fields(c.want)
		if !strings.Contains(c.line[strings.LastIndex(c.line, " "):], "-") {
			want = slices.DeleteFunc(want, func(w string) bool { return strings.HasPrefix(w, "-") })
		}
		words := strings.Fields(got[i])
		slices.Sort(words)
		if c.want != "" && !slices.Equal(words, want) || slices.Contains(words, "secret") {
			t.Errorf("%q: %q, not %q", c.line, words, want)
		}
	}
}

// TestNoOtherShell: there are scripts for three shells.
func TestNoOtherShell(t *testing.T) {
	if _, ok := Completion(model(t), "ksh"); ok || len(Shells) != 3 {
		t.Error("a script for ksh")
	}
}

// TestPage: the page has every verb, argument and flag, shows texts as they are, and man has no
// complaint.
func TestPage(t *testing.T) {
	t.Parallel()
	page := Page(model(t), About{Version: "1.2.3", Date: "2026-01-02", Sections: []Section{
		{Title: "NOTES", Paragraphs: []Paragraph{{Text: `It's "a\b" ~ ^ ` + "`"}, {Term: "0", Text: "Done."}}},
	}})
	for _, want := range []string{
		".TH \"TOOL\" 1 \"2026\\-01\\-02\" \"tool 1.2.3\"\n", "\ntool \\- A tool\n", ".B tool user add\n[\\fIflags\\fR] <name>\n",
		".SS \"tool user\"\nAdminister people.\n", "\\fI<name>\\fR\nThe person\\(aqs name.\n", ".TP\n\\fB\\-\\-config\\fR \\fIFILE\\fR\n",
		"\n\\fB\\-\\-quiet\\fR\n", "\n\\&.starts with a dot\n", ".SH \"NOTES\"\n.PP\nIt\\(aqs \"a\\eb\" \\(ti \\(ha \\(ga\n.TP\n\\fB0\\fR\nDone.\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q", want)
		}
	}
	if strings.Contains(page, "Nobody") {
		t.Error("a hidden verb")
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff is not here")
	}
	cmd := exec.Command(groff, "-man", "-Tutf8", "-ww", "-z")
	cmd.Stdin = strings.NewReader(page)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("groff: %v %s", err, out)
	}
}

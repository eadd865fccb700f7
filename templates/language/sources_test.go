package language_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template/parse"

	"gatehouse.example/templates/language"
)

// said is a sentence that the program says, with the names of its values.
type said struct {
	where, id string
	values    []string
}

// TestEverySentenceIsSaidAndExists: each sentence that the pages and the Go files of the
// module say is in sentences/en.txt with just the places that it has values for, and each
// sentence there is said.
func TestEverySentenceIsSaidAndExists(t *testing.T) {
	en := language.English()
	unused := map[string]bool{}
	for _, id := range en.IDs() {
		unused[id] = !strings.HasPrefix(id, "date.")
	}
	for _, s := range allSaid(t) {
		delete(unused, s.id)
		places := slices.DeleteFunc(en.Places(s.id), func(name string) bool { return strings.HasPrefix(name, "/") })
		if !slices.Contains(en.IDs(), s.id) {
			t.Errorf("%s says %q, which is not in sentences/en.txt", s.where, s.id)
			continue
		}
		for _, name := range places {
			if s.values != nil && !slices.Contains(s.values, name) {
				t.Errorf("%s says %q without the value %q", s.where, s.id, name)
			}
		}
		for _, name := range s.values {
			if !slices.Contains(places, name) && name != "count" {
				t.Errorf("%s says %q with the value %q, which has no place there", s.where, s.id, name)
			}
		}
	}
	for id, really := range unused {
		if really {
			t.Errorf("sentences/en.txt: nothing says %s", id)
		}
	}
}

// TestNoEnglishOutsideTheCatalogue: between the tags of a page are sentences and values only,
// and no Go file passes a sentence of its own off as a detail.
func TestNoEnglishOutsideTheCatalogue(t *testing.T) {
	allowed := strings.NewReplacer("Gatehouse", "", "SHA-256", "", "&nbsp;", "")
	action := regexp.MustCompile(`(?s)\{\{.*?\}\}`)
	tag := regexp.MustCompile(`(?s)<[^>]*>`)
	spoken := regexp.MustCompile(`\s(?:alt|title|aria-label|placeholder)="([^"]*)"`)
	for name, text := range sources(t) {
		if path.Ext(name) == ".go" {
			if strings.Contains(text, "language.Detail(\"") {
				t.Errorf("%s has a sentence in Go: put it into sentences/en.txt", name)
			}
			continue
		}
		text = action.ReplaceAllString(text, "")
		for _, m := range spoken.FindAllStringSubmatch(text, -1) {
			text += m[1]
		}
		text = allowed.Replace(tag.ReplaceAllString(text, " "))
		if left := regexp.MustCompile(`[\pL]+`).FindString(text); left != "" {
			t.Errorf("%s has the word %q: put the sentence into templates/language/sentences/en.txt", name, left)
		}
	}
}

// sources returns the files of the module that may say sentences, by name: pages, and Go
// files without tests.
func sources(t *testing.T) map[string]string {
	t.Helper()
	root, files := os.DirFS("../.."), map[string]string{}
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && name != "." || d.Name() == "testdata"):
			return fs.SkipDir
		case path.Ext(name) == ".html" && strings.HasPrefix(name, "templates/pages/"),
			path.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go"):
			text, err := fs.ReadFile(root, name)
			files[name] = string(text)
			return err
		}
		return nil
	})
	if err != nil || len(files) < 100 {
		t.Fatal(len(files), err)
	}
	return files
}

func allSaid(t *testing.T) (all []said) {
	t.Helper()
	for name, text := range sources(t) {
		switch {
		case path.Ext(name) == ".html":
			all = append(all, saidByPage(t, name, text)...)
		default:
			all = append(all, saidByGo(t, name, text)...)
		}
	}
	return all
}

// saidByGo finds the calls of Say and say. Any other string that is an id of a sentence
// counts as said, with values that are not known.
func saidByGo(t *testing.T, name, text string) (found []said) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
	if err != nil {
		t.Fatal(err)
	}
	ids := language.English().IDs()
	speaks := strings.Contains(text, "templates/language") || strings.HasPrefix(name, "templates/language/")
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if id, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING && slices.Contains(ids, id) {
				found = append(found, said{where: name, id: id})
			}
		case *ast.CallExpr:
			if !speaks {
				return true
			}
			if s, ok := saidByCall(name, n); ok {
				found = append(found, s)
			}
		}
		return true
	})
	return found
}

func saidByCall(name string, call *ast.CallExpr) (said, bool) {
	called := ""
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		called = f.Sel.Name
	case *ast.Ident:
		called = f.Name
	}
	if called != "Say" && called != "say" {
		return said{}, false
	}
	var words []string
	for _, arg := range call.Args {
		word := ""
		if literal, ok := arg.(*ast.BasicLit); ok {
			word, _ = strconv.Unquote(literal.Value)
		}
		words = append(words, word)
	}
	if words[0] == "" || call.Ellipsis.IsValid() {
		return said{}, false
	}
	return said{where: name, id: words[0], values: everySecond(words[1:])}, true
}

// saidByPage finds the calls of say and plain with the id of a sentence.
func saidByPage(t *testing.T, name, text string) (found []said) {
	t.Helper()
	tree := parse.New(name)
	tree.Mode = parse.SkipFuncCheck
	trees := map[string]*parse.Tree{}
	if _, err := tree.Parse(text, "", "", trees); err != nil {
		t.Fatal(err)
	}
	for _, tree := range trees {
		if tree.Root != nil {
			eachCommand(tree.Root, func(c *parse.CommandNode) {
				if f, ok := c.Args[0].(*parse.IdentifierNode); !ok || f.Ident != "say" && f.Ident != "plain" {
					return
				}
				var words []string
				for _, arg := range c.Args[1:] {
					word := ""
					if literal, ok := arg.(*parse.StringNode); ok {
						word = literal.Text
					}
					words = append(words, word)
				}
				if words[0] != "" {
					found = append(found, said{where: name, id: words[0], values: everySecond(words[1:])})
				}
			})
		}
	}
	return found
}

func everySecond(words []string) []string {
	names := []string{}
	for i := 0; i < len(words); i += 2 {
		names = append(names, words[i])
	}
	return names
}

func eachCommand(n parse.Node, visit func(*parse.CommandNode)) {
	pipe := func(p *parse.PipeNode) {
		for _, c := range p.Cmds {
			visit(c)
			for _, arg := range c.Args {
				eachCommand(arg, visit)
			}
		}
	}
	branch := func(b *parse.BranchNode) {
		eachCommand(b.List, visit)
		if b.ElseList != nil {
			eachCommand(b.ElseList, visit)
		}
		pipe(b.Pipe)
	}
	switch n := n.(type) {
	case *parse.ListNode:
		for _, child := range n.Nodes {
			eachCommand(child, visit)
		}
	case *parse.ActionNode:
		pipe(n.Pipe)
	case *parse.PipeNode:
		pipe(n)
	case *parse.IfNode:
		branch(&n.BranchNode)
	case *parse.RangeNode:
		branch(&n.BranchNode)
	case *parse.WithNode:
		branch(&n.BranchNode)
	}
}

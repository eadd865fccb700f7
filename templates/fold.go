package templates

import (
	"html/template"
	"strings"
	"text/template/parse"

	"gatehouse.example/templates/language"
)

// folded puts the sentences into a parsed page that need no values and stand between tags: such a
// sentence is the same for every reader of the language, and html/template would call two functions
// by reflection for it each time. Files of the operator's stay as they are. The pages show the same
// as before, byte for byte.
func (f files) folded(page *template.Template, l *language.Language) {
	for _, t := range page.Templates() {
		if t.Tree == nil || t.Tree.Root == nil {
			continue
		}
		if !f.replaced(t.Tree.ParseName) {
			foldList(t.Tree.Root, l, false)
		}
	}
}

// foldList folds a list that begins inside of a tag, or does not, and reports whether it ends inside
// of one.
func foldList(list *parse.ListNode, l *language.Language, inTag bool) bool {
	if list == nil {
		return inTag
	}
	for i, node := range list.Nodes {
		switch n := node.(type) {
		case *parse.TextNode:
			if at := strings.LastIndexAny(string(n.Text), "<>"); at >= 0 {
				inTag = n.Text[at] == '<'
			}
		case *parse.ActionNode:
			if said, ok := saidAlone(n.Pipe, l); ok && !inTag {
				list.Nodes[i] = &parse.TextNode{NodeType: parse.NodeText, Pos: n.Pos, Text: []byte(said)}
			}
		case *parse.IfNode:
			inTag = foldBranch(&n.BranchNode, l, inTag)
		case *parse.WithNode:
			inTag = foldBranch(&n.BranchNode, l, inTag)
		case *parse.RangeNode:
			inTag = foldBranch(&n.BranchNode, l, inTag)
		}
	}
	return inTag
}

// foldBranch folds both lists. In a page that html/template accepts, both end in the same place.
func foldBranch(b *parse.BranchNode, l *language.Language, inTag bool) bool {
	foldList(b.ElseList, l, inTag)
	return foldList(b.List, l, inTag)
}

// saidAlone returns the HTML of {{say "id"}}, if the language has that sentence.
func saidAlone(p *parse.PipeNode, l *language.Language) (template.HTML, bool) {
	if len(p.Decl) > 0 || len(p.Cmds) != 1 || len(p.Cmds[0].Args) != 2 {
		return "", false
	}
	call, isCall := p.Cmds[0].Args[0].(*parse.IdentifierNode)
	id, isText := p.Cmds[0].Args[1].(*parse.StringNode)
	if !isCall || !isText || call.Ident != "say" {
		return "", false
	}
	text := language.Say(id.Text)
	return l.HTML(text), l.Check(text) == nil
}

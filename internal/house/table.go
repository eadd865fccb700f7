package house

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Document is the page with the import table, from the root of the module. The table stands
// under the heading "## The house". A line is "| packages | what they are | imports of ours |
// imports of others |", with all names between backquotes. "none" and "everything" stand for
// themselves.
const Document = "docs/design.md"

// everything allows all imports.
const everything = "everything"

// Row is a line of the import table.
type Row struct {
	// Line is its number in [Document].
	Line int
	// Paths are folders from the root of the module.
	Paths []string
	// Ours and Others are what the packages may import.
	Ours, Others Imports
}

// Imports are the import paths in a cell of the table.
type Imports struct {
	// All allows every path.
	All bool
	// Paths are allowed. One that ends in /... stands for itself and all paths below it.
	Paths []string
	// In names the one file that may import a path: "`path` in `file.go`".
	In map[string]string
}

var (
	quoted    = regexp.MustCompile("`([^`]+)`(?: in `([^`]+)`)?")
	separator = regexp.MustCompile(`^\|[ :|-]+\|$`)
)

// parseTable returns the lines of the import table.
func parseTable(document string) (rows []Row, err error) {
	inside, body := false, false
	for i, line := range strings.Split(document, "\n") {
		switch {
		case strings.HasPrefix(line, "## "):
			inside, body = line == "## The house", false
		case !inside || !strings.HasPrefix(line, "|"):
		case separator.MatchString(line):
			body = true
		case body:
			r, err := parseRow(line)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", Document, i+1, err)
			}
			r.Line = i + 1
			if fault := again(rows, r); fault != nil {
				return nil, fault
			}
			rows = append(rows, r)
		}
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s has no import table", Document)
	}
	return rows, nil
}

// again returns an error if a package of a row is in an earlier row too, or twice in this one: checks
// would read one of the rows, and people perhaps the other.
func again(rows []Row, r Row) error {
	for i, dir := range r.Paths {
		for _, earlier := range rows {
			if slices.Contains(earlier.Paths, dir) {
				return fmt.Errorf("%s:%d: %s has a row already, in line %d", Document, r.Line, dir, earlier.Line)
			}
		}
		if slices.Contains(r.Paths[:i], dir) {
			return fmt.Errorf("%s:%d: %s is twice in this row", Document, r.Line, dir)
		}
	}
	return nil
}

func parseRow(line string) (r Row, err error) {
	cells := strings.Split(strings.Trim(line, "|"), "|")
	if len(cells) != 4 {
		return r, fmt.Errorf("%d cells and not 4", len(cells))
	}
	paths, err := parseCell(cells[0])
	if err != nil {
		return r, err
	}
	r.Paths = paths.Paths
	if r.Ours, err = parseCell(cells[2]); err != nil {
		return r, err
	}
	r.Others, err = parseCell(cells[3])
	return r, err
}

// parseCell reads a cell with names between backquotes, and with "none" or "everything". Other words
// are refused: no test would read them.
func parseCell(cell string) (i Imports, err error) {
	i.In = map[string]string{}
	for _, match := range quoted.FindAllStringSubmatch(cell, -1) {
		i.Paths = append(i.Paths, match[1])
		if match[2] != "" {
			i.In[match[1]] = match[2]
		}
	}
	rest := strings.FieldsFunc(quoted.ReplaceAllString(cell, ""), func(r rune) bool { return r == ' ' || r == ',' })
	switch {
	case len(rest) == 0 && len(i.Paths) > 0, len(i.Paths) == 0 && slices.Equal(rest, []string{"none"}):
	case len(i.Paths) == 0 && slices.Equal(rest, []string{everything}):
		i.All = true
	default:
		return i, fmt.Errorf("cannot read the cell %q: it has names between backquotes, or none, or everything", strings.TrimSpace(cell))
	}
	return i, nil
}

// Row returns the row of a package, nil if the table has none.
func (h *House) Row(dir string) *Row {
	i := slices.IndexFunc(h.Rows, func(r Row) bool { return slices.Contains(r.Paths, dir) })
	if i < 0 {
		return nil
	}
	return &h.Rows[i]
}

// allow reports whether a cell allows a file, by its name in its folder, to import a path.
func (i Imports) allow(file, imported string) bool {
	return i.All || slices.ContainsFunc(i.Paths, func(pattern string) bool {
		in := i.In[pattern]
		return covers(pattern, imported) && (in == "" || in == file)
	})
}

// covers reports whether a path in the table stands for an imported path.
func covers(pattern, imported string) bool {
	parent, below := strings.CutSuffix(pattern, "/...")
	return imported == parent || below && strings.HasPrefix(imported, parent+"/")
}

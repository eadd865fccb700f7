package main

import (
	"fmt"
	"strings"

	"gatehouse.example/authz/admin"
)

// crowds prints clients of one software in one line: applications register anew whenever
// they connect.
type crowds struct {
	paper paper[crowd]
	order []string // softwares as they came
	by    map[string]*crowd
}

// crowd is the clients of one software.
type crowd struct {
	admin.Client     // the one that was registered last
	count        int // of clients
}

// maxCrowds bounds how many softwares are told apart, and how much of them is kept.
const maxCrowds = 10_000

func (g *crowds) print(r admin.Client) error {
	if g.by == nil {
		g.by = map[string]*crowd{}
	}
	key := r.Software
	if key == "" {
		key = "client " + r.ID // by itself
	}
	known, ok := g.by[key]
	switch {
	case !ok && len(g.by) >= maxCrowds:
		return g.paper.print(crowd{r, 1})
	case !ok:
		g.order, g.by[key] = append(g.order, key), &crowd{r, 1}
	default:
		known.add(r)
	}
	return nil
}

// add counts one more. Of the states the liveliest is shown.
func (c *crowd) add(r admin.Client) {
	used, state := c.LastUsed, c.State
	if r.LastUsed.After(used) {
		used = r.LastUsed
	}
	if r.State == "active" || state == "disabled" {
		state = r.State
	}
	if r.Created.After(c.Created) {
		c.Client = r
	}
	c.LastUsed, c.State, c.count = used, state, c.count+1
}

func (g *crowds) end(complete bool) error {
	for _, key := range g.order {
		if err := g.paper.print(*g.by[key]); err != nil {
			return err
		}
	}
	return g.paper.end(complete)
}

func crowdLine(c crowd) string {
	which, software := wordOf(c.ID), "-"
	if c.count > 1 {
		which, software = fmt.Sprint(c.count), wordOf(c.Software)
	}
	return strings.Join([]string{
		which, quoted(c.ClientName), string(c.Source), c.State, hostsOf(c.RedirectURIs), moment(c.Created), moment(c.LastUsed), software,
	}, "\t")
}

package main

import (
	"fmt"
	"strings"

	"gatehouse.example/authz/admin"
)

// softwareList prints the clients of one software as one line: many applications register again
// whenever they connect.
type softwareList struct {
	list  recordList[softwareClients]
	order []string // keys of by, in the order of the clients
	by    map[string]*softwareClients
}

// softwareClients are the clients of one software.
type softwareClients struct {
	admin.Client     // the one that was registered last
	count        int // number of clients
}

// maxSoftware is the greatest number of kinds of software that are grouped, which bounds the
// memory for them.
const maxSoftware = 10_000

func (g *softwareList) print(r admin.Client) error {
	if g.by == nil {
		g.by = map[string]*softwareClients{}
	}
	key := r.Software
	if key == "" {
		key = "client " + r.ID // a group of its own
	}
	known, ok := g.by[key]
	switch {
	case !ok && len(g.by) >= maxSoftware:
		return g.list.print(softwareClients{r, 1})
	case !ok:
		g.order, g.by[key] = append(g.order, key), &softwareClients{r, 1}
	default:
		known.add(r)
	}
	return nil
}

// add adds a client. The state of the group is active if one client is active, disabled if all
// are.
func (c *softwareClients) add(r admin.Client) {
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

func (g *softwareList) end(complete bool) error {
	for _, key := range g.order {
		if err := g.list.print(*g.by[key]); err != nil {
			return err
		}
	}
	return g.list.end(complete)
}

func softwareLine(c softwareClients) string {
	which, software := wordOf(c.ID), "-"
	if c.count > 1 {
		which, software = fmt.Sprint(c.count), wordOf(c.Software)
	}
	return strings.Join([]string{
		which, quoted(c.ClientName), string(c.Source), c.State, hostsOf(c.RedirectURIs), moment(c.Created), moment(c.LastUsed), software,
	}, "\t")
}

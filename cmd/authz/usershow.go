package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/alecthomas/kong"

	"gatehouse.example/authz/admin"
	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/storage"
)

type userShow struct {
	storeSettings
	Name string `arg:"" help:"The name of the person; PROVIDER/HANDLE for a person of a provider."`
	All  bool   `help:"Print all sessions and grants, not only the newest twenty of each."`
	JSON bool   `name:"json" help:"Print the record as JSON."`
}

// shownRecords is how many sessions and grants are printed without --all.
const shownRecords = 20

// shownUser is a person with the groups that the file of the server lists them in, nil without a
// file.
type shownUser struct {
	admin.Profile
	FileGroups []string `json:"file_groups,omitempty"`
}

// Run prints a person. Names of clients, passkeys and browsers come from outside, so they are
// printed quoted.
func (v *userShow) Run(ctx context.Context, p *program, k *kong.Context) error {
	file, err := p.loadStore(k)
	if err != nil {
		return err
	}
	store, err := v.open(ctx, p)
	if err != nil {
		return err
	}
	defer store.Close()
	most := shownRecords
	if v.All {
		most = 0
	}
	var person shownUser
	person.Profile, err = admin.ProfileOf(ctx, store, v.Name, most)
	if file != nil {
		person.FileGroups = p.groupsOf(person.Name, file)
	}
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return noPerson(v.Name)
	case err != nil:
		return err
	case v.JSON:
		err = p.printJSON(person)
	default:
		err = printProfile(p.stdout, person)
	}
	if err == nil && person.Unreadable > 0 {
		err = fmt.Errorf("%s of sessions and grants skipped, because they cannot be read", counted(person.Unreadable, "record"))
	}
	return err
}

// groupsOf returns the groups in which the file lists a person, never nil unless they cannot be read.
// A verb goes on then: the server reports mistakes.
func (p *program) groupsOf(name string, d *settings.Document) []string {
	groups, err := groupsIn(d)
	if err != nil {
		fmt.Fprintf(p.stderr, "authz: warning: the groups of the file are left out, because they cannot be read: %v\n", err)
		return nil
	}
	in := []string{}
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		if slices.Contains(groups[group], name) {
			in = append(in, group)
		}
	}
	return in
}

// groupsShown is how many groups of a person are printed; --json has all.
const groupsShown = 50

func printProfile(w io.Writer, r shownUser) error {
	var text strings.Builder // written at once
	line := func(label, value string) { fmt.Fprintf(&text, "  %-15s %s\n", label, value) }
	fmt.Fprintln(&text, wordOf(r.Name))
	line("subject", wordOf(r.Subject))
	line("state", userState(r.User))
	line("created", moment(r.Created.UTC()))
	if r.FullName != "" {
		line("full name", quoted(r.FullName))
	}
	if r.Email != "" {
		line("e-mail", wordOf(r.Email))
	}
	for _, way := range waysOf(r.Profile) {
		line("signs in with", way)
	}
	line("groups", groupWords(r.User, groupsShown))
	if r.FileGroups != nil {
		line("in the file", groupWords(admin.User{Groups: r.FileGroups}, groupsShown))
	}
	printSessions(&text, r.Profile)
	printGrants(&text, r.Profile)
	_, err := io.WriteString(w, text.String())
	return err
}

// waysOf returns the ways in which a person can sign in, each as a line.
func waysOf(r admin.Profile) (ways []string) {
	if r.Password {
		ways = append(ways, "password")
	}
	if f := r.SecondFactor; f != nil {
		ways = append(ways, fmt.Sprintf("second factor, since %s, %s left", moment(f.Created), counted(f.RecoveryCodes, "recovery code")))
	}
	for _, k := range r.Passkeys {
		ways = append(ways, fmt.Sprintf("passkey %s, since %s, last used %s", quoted(k.Name), moment(k.Created), moment(k.Used)))
	}
	for _, i := range r.Identities {
		ways = append(ways, fmt.Sprintf("provider %s: %s at %s, subject %s, since %s, last used %s",
			wordOf(i.Provider), wordOf(i.Handle), wordOf(i.Issuer), wordOf(i.Subject), moment(i.Linked.UTC()), moment(i.Used.UTC())))
	}
	if !r.LinkExpires.IsZero() {
		ways = append(ways, "one-time link, until "+moment(r.LinkExpires))
	}
	if len(ways) == 0 {
		ways = []string{"- (nothing: authz user reset makes a one-time link)"}
	}
	return ways
}

func printSessions(w io.Writer, r admin.Profile) {
	title := "Sessions, the newest first: " + howMany(len(r.Sessions), r.MoreSessions, "authz user show --all")
	printTable(w, title, "SINCE\tLAST USED\tENDS\tBY\tBROWSER\tFROM", r.Sessions, func(s admin.Session) string {
		by := wordOf(s.Method)
		if s.Provider != "" {
			by = wordOf(s.Provider)
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s", moment(s.Since), moment(s.Used), moment(s.Ends), by, quoted(s.Browser), wordOf(s.From))
	})
}

func printGrants(w io.Writer, r admin.Profile) {
	title := "Grants, the newest first: " + howMany(len(r.Grants), r.MoreGrants, "authz user show --all, or authz grant ls --user")
	head := "GRANT\tCLIENT\tRESOURCES\tSCOPES\tSTATE\tSINCE\tLAST USED\tENDS\tFROM"
	printTable(w, title, head, r.Grants, func(g admin.HeldGrant) string {
		client := wordOf(g.ClientID)
		if g.ClientName != "" {
			client += " " + quoted(g.ClientName)
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s", wordOf(g.ID), client, wordsOf(g.Resources), scopesByResource(g.Grant), g.State,
			moment(g.Created), moment(g.LastUsed), moment(g.Ends), wordOf(g.From))
	})
}

// printTable prints the records of a person under a title, in columns that tabs divide.
func printTable[R any](w io.Writer, title, head string, records []R, line func(R) string) {
	fmt.Fprintf(w, "\n%s\n", title)
	if len(records) == 0 {
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  "+head)
	for _, r := range records {
		fmt.Fprintln(t, "  "+line(r))
	}
	_ = t.Flush() // into memory
}

// howMany says how many records are printed, and how to see the rest.
func howMany(n int, more bool, how string) string {
	switch {
	case more:
		return fmt.Sprintf("%d, and there are more: %s", n, how)
	case n == 0:
		return "none"
	}
	return fmt.Sprint(n)
}

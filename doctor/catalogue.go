package doctor

import (
	"slices"
)

// Entry describes a check. Findings, `authz doctor --list` and docs/doctor.md are made from it.
type Entry struct {
	// ID is stable: what once had a name keeps it.
	ID       string
	Severity Severity
	// Rule is the document and the section.
	Rule string
	// Title says what is wrong, in one line.
	Title string
	// Symptoms are what people see and search for.
	Symptoms []string
	// Mend says how to mend it. Mends says so for servers by name, where it differs.
	Mend  string
	Mends map[string]string
	// Clients are the clients that the fault can stop, of those that [Clients] lists.
	Clients []string
}

// check is an entry with the function that judges the record of a walk. It returns what was
// seen, one text for each fault.
type check struct {
	Entry
	look func(*walk) []string
}

// catalogue returns all checks, in the order of the walk.
func catalogue() []check {
	return slices.Concat(
		reachChecks, callChecks, challengeChecks, tokenChecks, placeChecks, resourceChecks,
		serverChecks, memberChecks, wayChecks, endpointChecks, registerChecks, tryChecks, browserChecks, originChecks,
		proofChecks, matchChecks, policyChecks, documentChecks, pageChecks, unaskedChecks,
		withTokenChecks, useChecks, signInChecks, grantChecks, misuseChecks, clockChecks, refreshChecks, expiryChecks,
	)
}

// Catalogue returns the descriptions of all checks, in their order.
func Catalogue() (all []Entry) {
	for _, c := range catalogue() {
		all = append(all, c.Entry)
	}
	return all
}

// saw returns the one text, if a fault was seen.
func saw(fault bool, text string) []string {
	if !fault {
		return nil
	}
	return []string{text}
}

// each collects what is seen at every authorization server whose metadata can be read.
func each(look func(s *server, d *document) string) func(*walk) []string {
	return func(w *walk) (found []string) {
		for _, s := range w.servers {
			if d := s.metadata(); d != nil {
				if text := look(s, d); text != "" {
					found = append(found, text)
				}
			}
		}
		return found
	}
}

package wildcard

// tree is a trie of texts. Node 0 is the root.
type tree struct {
	nodes   []node
	class   [256]uint16 // of a character; 0 for characters that are in no text
	classes int
	next    []int32 // by node and class; 0 means the root or no child
	texts   int     // the number of texts
}

// node stands for the characters on the path from the root.
type node struct {
	text    int   // the id of the text that ends at this node, -1 without one
	depth   int   // the number of characters on the path
	shorter int   // the node of the longest other text that is a suffix of the path; 0 for none
	ends    []int // the numbers given to [builder.mark]
}

// child returns the node that a character leads to.
func (t *tree) child(at int, c byte) int {
	class := t.class[c]
	if class == 0 {
		return 0
	}
	return int(t.next[at*t.classes+int(class)])
}

// builder builds a tree.
type builder struct {
	nodes    []node
	children []map[byte]int
	texts    int
}

func (b *builder) grow(depth int) int {
	b.nodes, b.children = append(b.nodes, node{text: -1, depth: depth}), append(b.children, map[byte]int{})
	return len(b.nodes) - 1
}

// walk returns the node of a text, and adds the nodes that are missing.
func (b *builder) walk(text string) int {
	if len(b.nodes) == 0 {
		b.grow(0)
	}
	at := 0
	for i := range len(text) {
		child, ok := b.children[at][text[i]]
		if !ok {
			child = b.grow(i + 1)
			b.children[at][text[i]] = child
		}
		at = child
	}
	return at
}

// add returns the id of a text.
func (b *builder) add(text string) int {
	at := b.walk(text)
	if b.nodes[at].text < 0 {
		b.nodes[at].text = b.texts
		b.texts++
	}
	return b.nodes[at].text
}

// mark adds a number to the node of a text.
func (b *builder) mark(text string, number int) {
	at := b.walk(text)
	b.nodes[at].ends = append(b.nodes[at].ends, number)
}

// tree returns the finished tree. With search, a character without a child leads to the child
// of the longest suffix of the path that has one, so that texts are found at any position.
func (b *builder) tree(search bool) tree {
	b.walk("")
	t := tree{nodes: b.nodes, classes: 1, texts: b.texts}
	for _, children := range b.children {
		for c := range children {
			if t.class[c] == 0 {
				t.class[c] = uint16(t.classes)
				t.classes++
			}
		}
	}
	t.next = make([]int32, len(t.nodes)*t.classes)
	for at, children := range b.children {
		for c, child := range children {
			t.next[at*t.classes+int(t.class[c])] = int32(child)
		}
	}
	if search {
		t.link()
	}
	return t
}

// link sets the transitions of the search, in breadth-first order.
func (t *tree) link() {
	fail := make([]int32, len(t.nodes))
	queue := []int{0}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		row, other := t.next[at*t.classes:(at+1)*t.classes], t.next[int(fail[at])*t.classes:]
		for class := 1; class < t.classes; class++ {
			child := row[class]
			if child == 0 {
				if at != 0 {
					row[class] = other[class]
				}
				continue
			}
			if at != 0 {
				fail[child] = other[class]
			}
			longest := int(fail[child])
			if t.nodes[longest].text < 0 {
				longest = t.nodes[longest].shorter
			}
			t.nodes[child].shorter = longest
			queue = append(queue, int(child))
		}
	}
}

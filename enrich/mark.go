package enrich

import "github.com/dlqbridge/dlqbridge"

// mark reads our own mark. Anybody can write one, so it is only a claim until
// the record that it names is found to have that job and number.
func (x *extraction) mark() *dlqbridge.Mark {
	attr, ok := x.letter.Payload.Attribute(dlqbridge.MarkName)
	if !ok {
		return x.compensation()
	}
	m, err := dlqbridge.ParseMark(attr.Value)
	if err != nil {
		x.conflict("redrive", "attr:"+dlqbridge.MarkName, "not a mark of ours")
		return x.compensation()
	}
	if m.Action != dlqbridge.ActionCompensate {
		// A body that asks to undo something is no work, whatever the mark calls it.
		if c := x.compensation(); c != nil {
			return c
		}
	}
	return &m
}

"""Before a record is counted: does it fit, and can all constraints be kept?"""

"""What does a training process keep of its interpreter if the loader runs elsewhere?"""
